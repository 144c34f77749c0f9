"""Greedy and beam search on a GPU in bfloat16, beside CTranslate2 with the same weights.

    python benchmarks/gpu/decoding.py --output FILE [--seconds N] [--small]

Models are untrained, and every translation has a fixed number of tokens. CTranslate2 runs on the
GPU if its wheel finds the CUDA libraries that it was compiled for, otherwise on the CPU, as stated.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import Work, sentences, work_of
from timing import Figures, forget_peak, peak_megabytes, wait

from regard.config import SearchConfig
from regard.data.special_tokens import SPECIAL
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.tokenizer_settings import TokenizerSettings
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.model import TranslationModel

RECIPES = ("multi30k-transformer", "wmt14-transformer-base", "multi30k-luong")
BEAMS = {"greedy": 1, "beam 5": 5}
TOKENS, SENTENCES, BATCH = 25, 256, 64
TURNS = 3
"""Number of times that the sentences are translated; the fastest counts."""


@dataclass(frozen=True)
class Texts:
    """A model with sentences of words of its vocabulary."""

    work: Work
    translator: TranslationModel
    sources: list[str]
    tokens: int

    @classmethod
    def of(cls, name: str, figures: Figures) -> Texts:
        work = work_of(name, figures.device, small=figures.small)
        number, tokens = (4, 5) if figures.small else (SENTENCES, TOKENS)
        size = work.vocabulary_size
        words = [f"w{place}" for place in range(len(SPECIAL), size)]
        tokenizer = Tokenizer.train(words, TokenizerSettings(kind="spaces"))
        data = replace(work.experiment.data, tokenizer="spaces", vocabulary_size=None)
        experiment = replace(work.experiment, data=data)
        translator = TranslationModel(
            experiment, Tokenizers(tokenizer, tokenizer), work.model.eval()
        )
        random = np.random.default_rng(2)
        rows = sentences(random, number, 14, size)
        return cls(work, translator, [tokenizer.decode(row) for row in rows], tokens)


def fastest(translate: Callable[[], int], device: torch.device) -> dict[str, Any]:
    """Return the speed of a function that returns the number of its tokens."""
    forget_peak(device)
    translate()
    seconds, num_tokens = [], 0
    for _ in range(TURNS):
        wait(device)
        began = time.perf_counter()
        num_tokens = translate()
        wait(device)
        seconds.append(time.perf_counter() - began)
    return {
        "target tokens/s": round(num_tokens / min(seconds)),
        "peak MB": peak_megabytes(device),
    }


def ours(name: str, beam: int, figures: Figures) -> dict[str, Any]:
    """Return the speed of Regard, from texts to texts."""
    texts = Texts.of(name, figures)
    search = SearchConfig(
        beam=beam, min_length=texts.tokens, max_length=texts.tokens, precision="bfloat16"
    )

    def translate() -> int:
        for first in range(0, len(texts.sources), BATCH):
            part = texts.sources[first : first + BATCH]
            texts.translator.translate(part, search=search, attention=False)
        return len(texts.sources) * texts.tokens

    return fastest(translate, figures.device)


def theirs(name: str, beam: int, figures: Figures) -> dict[str, Any]:
    """Return the speed of CTranslate2, from tokens to tokens."""
    try:
        import ctranslate2
    except ImportError as error:
        return {"left out": str(error)}
    from regard.exporting.ctranslate2_transformer import Vocabularies, save_transformer

    texts = Texts.of(name, figures)
    pieces = texts.translator.tokenizers.source.vocabulary
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        folder.mkdir()
        vocabularies = Vocabularies(pieces, pieces, ends_sources=True)
        save_transformer(texts.work.model.cpu(), vocabularies, folder)
        parts = [text.split() for text in texts.sources]
        errors = ""
        for place in ("cpu",) if figures.small else ("cuda", "cpu"):
            precision = "float16" if place == "cuda" else "float32"
            try:
                engine = ctranslate2.Translator(str(folder), device=place, compute_type=precision)
                run = partial(translate_tokens, engine, parts, beam, texts.tokens)
                return {**fastest(run, figures.device), "on": f"{place}, {precision}{errors}"}
            except (RuntimeError, ValueError) as error:
                errors += f"; {place}: {' '.join(str(error).split())[:200]}"
    return {"left out": errors}


def translate_tokens(engine: Any, parts: list[list[str]], beam: int, tokens: int) -> int:
    lengths = dict(min_decoding_length=tokens, max_decoding_length=tokens)
    results = engine.translate_batch(parts, beam_size=beam, max_batch_size=BATCH, **lengths)
    return sum(len(result.hypotheses[0]) for result in results)


def main() -> None:
    figures = Figures.of_command(__doc__.splitlines()[0])
    for name in RECIPES:
        for how, beam in BEAMS.items():
            figures.measure(f"{name}, {how}, Regard", partial(ours, name, beam, figures))
            if "transformer" in name:
                call = partial(theirs, name, beam, figures)
                figures.measure(f"{name}, {how}, CTranslate2", call)


if __name__ == "__main__":
    main()
