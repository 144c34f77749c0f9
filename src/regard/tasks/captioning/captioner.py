"""A trained captioner: pictures in, texts and what each word looked at out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np

from regard.building import build_captioner
from regard.config import CaptionDataConfig, CaptionerConfig, Experiment, SearchConfig
from regard.data.batch import END, PAD, START
from regard.data.text.tokenizer import Tokenizer
from regard.device import device_named
from regard.errors import UserError
from regard.models.seq2seq import Seq2Seq
from regard.models.vision_backbone import Backbone
from regard.models.weights import load_model
from regard.runs.folder import RunFolder
from regard.search import Limits
from regard.tasks.arguments import check_how, check_texts
from regard.tasks.captioning.images import PictureSources
from regard.tasks.generation import Searcher
from regard.tasks.tracing import Looked, Tracer, Written
from regard.tasks.translation.translator import Translation, translations

PICTURES_AT_A_TIME = 64
LONGEST = 60
"""Tokens of a caption where a recipe says nothing."""


def check_search(search: SearchConfig) -> None:
    """UserError for a search that pictures do not allow."""
    for name in ("unknown_replacement", "lexicon", "max_ratio", "max_source"):
        if getattr(search, name):
            raise UserError(
                f"search.{name} goes by the words of a source, and a picture has none of them: "
                "leave it out"
            )


class Captioner:
    """What `regard.load` gives for a run that writes captions."""

    def __init__(
        self,
        experiment: Experiment,
        tokenizer: Tokenizer,
        model: Seq2Seq,
        backbone: Backbone | None = None,
    ) -> None:
        """The weights are not to change from the first caption on. `backbone` is what makes cells
        for the model, if it sees these."""
        if not isinstance(experiment.data, CaptionDataConfig):
            raise UserError(f"a model that is trained to {experiment.data.task} sees no pictures")
        self.experiment = experiment
        self.data = experiment.data
        self.tokenizer = tokenizer
        self.model = model
        self.sources = PictureSources.of(experiment.data, backbone)
        self._searcher = Searcher(model)
        self._tracer = Tracer(self.sources, tokenizer, experiment.data.language, model)

    @classmethod
    def load(cls, run: str | Path, *, device: str = "auto") -> Captioner:
        """Load a run folder; UserError where it is none, or one of another task."""
        place = device_named(device)
        folder = RunFolder(Path(run))
        experiment = folder.experiment()
        data, config = experiment.data, experiment.model
        if not isinstance(data, CaptionDataConfig) or not isinstance(config, CaptionerConfig):
            raise UserError(f"{run} is no captioner: its task is to {data.task}")
        folder.check_files()
        tokenizer = Tokenizer.load(folder.target_tokenizer)
        backbone = None
        if config.backbone is not None:
            load = Backbone.shaped if config.backbone_learns else Backbone.load
            backbone = load(folder.backbone).eval()
        build = partial(build_captioner, config, data.picture_size, len(tokenizer), backbone)
        model = load_model(build, folder.model)
        model = model.to(place).eval()
        if backbone is None or config.backbone_learns:
            return cls(experiment, tokenizer, model)
        return cls(experiment, tokenizer, model, backbone.to(place))

    @overload  # of the two that fit a str the first is meant
    def caption(  # type: ignore[overload-overlap]
        self,
        picture: str | Path,
        *,
        search: SearchConfig | None = None,
        num_best: int = 1,
        attention: bool = True,
    ) -> Translation: ...
    @overload
    def caption(
        self,
        picture: Iterable[str | Path],
        *,
        search: SearchConfig | None = None,
        num_best: int = 1,
        attention: bool = True,
    ) -> list[Translation]: ...
    def caption(
        self,
        picture: str | Path | Iterable[str | Path],
        *,
        search: SearchConfig | None = None,
        num_best: int = 1,
        attention: bool = True,
    ) -> Translation | list[Translation]:
        """Write a caption for one picture or for many, in their order. PictureError names one that
        cannot be read. `attention` False is faster."""
        if isinstance(picture, str | Path):
            found = self.caption([picture], search=search, num_best=num_best, attention=attention)
            return found[0]
        check_how(search, num_best)
        names = [str(name) for name in check_texts("picture", picture, (str, Path))]
        results: list[Translation] = []
        for first in range(0, len(names), PICTURES_AT_A_TIME):
            some = names[first : first + PICTURES_AT_A_TIME]
            contents = self.sources.features_of([self.sources.read(name) for name in some])
            seen = list(zip(some, contents, strict=True))
            results += self.write(seen, search=search, num_best=num_best, attention=attention)
        return results

    def write(
        self,
        pictures: Sequence[tuple[str, np.ndarray]],
        *,
        search: SearchConfig | None = None,
        num_best: int = 1,
        attention: bool = True,
    ) -> list[Translation]:
        """The same for what `sources` sees of pictures, with their names. UserError for a search
        that pictures do not allow."""
        if num_best < 1:
            raise UserError(f"num_best (--nbest) is {num_best}: expected 1 or more")
        search = search or self.experiment.search
        search = replace(search, beam=max(search.beam, num_best))
        check_search(search)
        limits = Limits(
            start=START,
            end=END,
            maximum=search.max_length or LONGEST,
            minimum=search.min_length,
            forbidden=(PAD, START),
        )
        results: list[Translation] = []
        for first in range(0, len(pictures), PICTURES_AT_A_TIME):
            some = pictures[first : first + PICTURES_AT_A_TIME]
            source = self.sources.pad([content for _, content in some])
            found = self._searcher.search(source, limits, search, num_best, attention=attention)
            results += translations(self._tracer, some, found, self._text, attention=attention)
        return results

    def _text(self, written: Written, looked: Looked) -> str:
        del looked
        return self.tokenizer.decode(written.target)
