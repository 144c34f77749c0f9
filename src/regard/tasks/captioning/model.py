"""A trained captioner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import index
from pathlib import Path
from typing import SupportsIndex, cast, overload

import numpy as np

from regard.building.captioners import build_captioner
from regard.config import BackboneEncoderConfig, CaptionDataConfig, Experiment, SearchConfig
from regard.config.models import is_fine_tuned
from regard.config.parts.encoders import ImageEncoderConfig
from regard.data.batch import END, START
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.seq2seq import Seq2Seq
from regard.models.vision.backbone import Backbone
from regard.runs.folder import RunFolder
from regard.runtime.device import cpu_by_default, device_named, float32_by_default
from regard.runtime.wanted import check_wanted
from regard.search import Limits
from regard.storage.weights import load_model
from regard.tasks.arguments import check_texts, search_of, sections_of
from regard.tasks.captioning.images import ImageSources
from regard.tasks.display import describe_model
from regard.tasks.generation import (
    GeneratedText,
    Searcher,
    forbidden_tokens,
    generated_texts,
    restrictions_of,
)
from regard.tasks.memory import (
    DecodingMemory,
    ResultMemory,
    batches_within,
    check_each,
)
from regard.tasks.prefixes import (
    check_prefix,
    check_prefixes,
    problem_of_prefix,
    without_end,
)
from regard.tasks.tracing import LazyTrace, Output, Tracer

IMAGES_AT_A_TIME = 64
BYTES_OF_PIXEL = 400
"""Estimated memory of encoding an image, for each of its pixels."""
MIN_CELLS = 196
"""Number of cells of most backbones."""
MAX_LENGTH = 60
"""Largest number of tokens in a caption, unless the recipe has `search.max_length`."""


def check_search(search: SearchConfig) -> None:
    """Raise a UserError for a search option that needs words of a source."""
    for name in ("unknown_replacement", "lexicon", "max_ratio", "max_source"):
        if getattr(search, name):
            raise UserError(
                f"search.{name} needs the words of a source, but an image has none: leave it out"
            )


def num_cells(side: int, encoder: ImageEncoderConfig) -> int:
    """Return the largest number of cells of an image."""
    if isinstance(encoder, BackboneEncoderConfig):
        return max(MIN_CELLS, (side // 8) ** 2)
    return (side // 2 ** len(encoder.channels) + 1) ** 2


class CaptionModel:
    """A trained captioner. `regard.load` returns it for runs that caption images."""

    def __init__(
        self,
        experiment: Experiment,
        tokenizer: Tokenizer,
        model: Seq2Seq,
        backbone: Backbone | None = None,
        *,
        is_private: bool = False,
    ) -> None:
        """`backbone` computes the features of an image if the model takes features as its input.
        `is_private` says that no other code has the model, so that changes of its weights need not
        be looked for."""
        self.experiment = experiment
        self.data, config = sections_of(experiment, CaptionDataConfig, experiment.name)
        self.tokenizer = tokenizer
        self.sources = ImageSources.of(self.data, backbone)
        self._searcher = Searcher(model, is_private=is_private)
        self.num_cells = num_cells(self.data.image_size, config.encoder)
        self.memory = DecodingMemory([config], len(tokenizer))
        self._tracer = Tracer(self.sources, tokenizer, self.data.language, model, self.memory)

    @classmethod
    @cpu_by_default()
    @float32_by_default()
    def load(cls, run: str | Path, *, device: str = "auto") -> CaptionModel:
        """Load a run folder. UserError if it is no run, or a run of another task."""
        place = device_named(device)
        folder = RunFolder(Path(run))
        experiment = folder.experiment()
        data, config = sections_of(experiment, CaptionDataConfig, str(run))
        folder.check_files()
        tokenizer = Tokenizer.load(folder.target_tokenizer)
        backbone = None
        if isinstance(config.encoder, BackboneEncoderConfig):
            load = Backbone.shaped if config.encoder.fine_tune else Backbone.load
            backbone = load(folder.backbone).eval()
        build = partial(build_captioner, config, data.image_size, len(tokenizer), backbone)
        model = load_model(build, folder.model)
        model = model.to(place).eval()
        if backbone is None or is_fine_tuned(config):
            return cls(experiment, tokenizer, model, is_private=True)
        return cls(experiment, tokenizer, model, backbone.to(place), is_private=True)

    def __repr__(self) -> str:
        sizes = f"vocabulary {len(self.tokenizer):,}"
        return describe_model("CaptionModel", self.experiment, self._tracer.model, sizes)

    @property
    def model(self) -> Seq2Seq:
        """The model itself, which may be changed: the next call gives the numbers of the changed
        model. From the first access on, each search compares all weights first."""
        return cast(Seq2Seq, self._searcher.model)

    @overload  # a str matches both overloads; this one applies
    def caption(  # type: ignore[overload-overlap]
        self,
        image: str | Path,
        *,
        search: SearchConfig | None = None,
        beam: SupportsIndex | None = None,
        num_best: SupportsIndex = 1,
        attention: bool = True,
        prefix: str | Iterable[str] | None = None,
    ) -> GeneratedText: ...
    @overload
    def caption(
        self,
        image: Iterable[str | Path],
        *,
        search: SearchConfig | None = None,
        beam: SupportsIndex | None = None,
        num_best: SupportsIndex = 1,
        attention: bool = True,
        prefix: str | Iterable[str] | None = None,
    ) -> list[GeneratedText]: ...
    @cpu_by_default()
    def caption(
        self,
        image: str | Path | Iterable[str | Path],
        *,
        search: SearchConfig | None = None,
        beam: SupportsIndex | None = None,
        num_best: SupportsIndex = 1,
        attention: bool = True,
        prefix: str | Iterable[str] | None = None,
    ) -> GeneratedText | list[GeneratedText]:
        """Caption one image or several images, in their order. `beam` is short for the run's own
        search with this beam. `attention=False` is faster. Each caption begins with the tokens of
        the `prefix`: a text for all, or one for each image; "" for none. PrefixError, a ValueError,
        if it has unknown words or more tokens than a caption may have. ImageError names an image
        that cannot be read."""
        if isinstance(image, str | Path):
            return self.caption(
                [image],
                search=search,
                beam=beam,
                num_best=num_best,
                attention=attention,
                prefix=prefix,
            )[0]
        search = search_of(self.experiment, search, beam, num_best)
        num_best = index(num_best)
        names = [str(name) for name in check_texts("image", image, (str, Path))]
        prefixes = check_prefix(prefix, len(names))
        self._forced(prefixes, search)
        results: list[GeneratedText] = []
        memory = ResultMemory(search)
        for first in range(0, len(names), IMAGES_AT_A_TIME):
            batch = names[first : first + IMAGES_AT_A_TIME]
            contents = self.sources.features_of([self.sources.read(name) for name in batch])
            images = list(zip(batch, contents, strict=True))
            captions = self.generate(
                images,
                search=search,
                num_best=num_best,
                attention=attention,
                prefix=prefixes[first : first + IMAGES_AT_A_TIME],
            )
            memory.add(sum(caption.num_bytes for caption in captions))
            results += captions
        return results

    @cpu_by_default()
    def generate(
        self,
        images: Sequence[tuple[str, np.ndarray]],
        *,
        search: SearchConfig | None = None,
        num_best: SupportsIndex = 1,
        attention: bool = True,
        prefix: str | Iterable[str] | None = None,
    ) -> list[GeneratedText]:
        """Caption model inputs, each with the name of its image (see `sources`), as `caption`.
        UserError for a search option that images do not allow."""
        search = search_of(self.experiment, search, num_best=num_best)
        num_best = index(num_best)
        check_search(search)
        prefixes = self._forced(check_prefix(prefix, len(images)), search)
        limits = Limits(
            start=START,
            end=END,
            maximum=search.max_length or MAX_LENGTH,
            minimum=search.min_length,
            forbidden=forbidden_tokens(search, self.tokenizer, "forbid"),
        )
        needed = self.bytes_of_search(search, num_best, attention=attention)
        check_each([(0, needed)] if images else [], search, "image")
        memory = ResultMemory(search)
        results: list[GeneratedText] = []
        for batch in batches_within(images, lambda _: needed, IMAGES_AT_A_TIME):
            check_wanted()
            forced = prefixes[len(results) : len(results) + len(batch)]
            limits = replace(limits, restrictions=restrictions_of(search, forced))
            source = self.sources.pad([content for _, content in batch])
            hypotheses = self._searcher.search(
                source, limits, search, num_best, attention=attention
            )
            captions = generated_texts(
                self._tracer, batch, hypotheses, self._text, attention=attention
            )
            memory.add(sum(caption.num_bytes for caption in captions))
            results += captions
        return results

    def _forced(self, prefixes: Sequence[str], search: SearchConfig) -> list[list[int]]:
        """Return the tokens of prefixes. PrefixError if the model cannot write one."""
        if not any(prefixes):
            return [[] for _ in prefixes]
        tokens = without_end(prefixes, self.tokenizer.encode_batch(prefixes), END)
        maximum = search.max_length or MAX_LENGTH
        problems = [
            problem_of_prefix(*entry, self.tokenizer, maximum)
            for entry in zip(prefixes, tokens, strict=True)
        ]
        check_prefixes(problems, "image")
        return tokens

    def bytes_of_search(self, search: SearchConfig, num_best: int, *, attention: bool) -> int:
        """Estimate the memory of captioning one image."""
        maximum = search.max_length or MAX_LENGTH
        needed = self.memory.of_search(
            self.num_cells, maximum, search.beam, num_best, attention=attention
        )
        return needed + BYTES_OF_PIXEL * self.data.image_size**2

    def _text(self, output: Output, _lazy_trace: LazyTrace) -> str:
        return self.tokenizer.decode(output.target)
