"""Export of a run for another engine: all files that the engine needs, so that it runs without
Regard."""

from __future__ import annotations

import importlib
import json
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.config import SearchConfig
from regard.data.batch import END, PAD, START
from regard.data.special_tokens import SPECIAL
from regard.errors import UserError, install_command
from regard.names import Engine
from regard.runs.ensemble import check_single
from regard.storage.files import UnwritableError, make_folder
from regard.tasks.translation.model import BEYOND_RATIO, DEFAULT_RATIO, TranslationModel

WRITERS = {"onnx": "onnx_recurrent", "ctranslate2": "ctranslate2_transformer"}
ABOUT = "about.json"


def export(run: Path, engine: Engine, folder: Path) -> tuple[str, ...]:
    """Write a new folder and return the names of its files. The folder is complete or not written.

    UserError if the engine's library is missing, if the engine has no such model, if the run is an
    ensemble, or if the folder is not empty."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder} is not empty: remove it, or name another folder with -o")
    check_single(run)
    writer = _writer(engine)
    translator = TranslationModel.load(run, device="cpu")
    if translator.data.feature_columns:
        raise UserError(
            f"the model reads features of sources, which --to {engine} cannot: train without "
            "--data.feature-columns"
        )
    if translator.copies:
        raise UserError(
            f"the model copies source words, which --to {engine} cannot: train with "
            "--model.copy none"
        )
    make_folder(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export") as unfinished:
        whole = Path(unfinished) / "export"
        whole.mkdir()
        try:
            _write_model(writer, engine, translator, whole)
            for side, tokenizer in _sides(translator).items():
                text = tokenizer.to_library()
                (whole / f"{side}.tokenizer.json").write_text(text, encoding="utf8")
            settings = json.dumps(_settings(translator, engine), ensure_ascii=False, indent=1)
            (whole / ABOUT).write_text(settings, encoding="utf8")
            if folder.exists():
                folder.rmdir()
            shutil.move(whole, folder)
        except OSError as error:
            raise UnwritableError(f"cannot write {folder}: {error.strerror or error}") from error
    return tuple(sorted(path.name for path in folder.iterdir()))


def _writer(engine: Engine) -> ModuleType:
    try:
        return importlib.import_module(f"regard.exporting.{WRITERS[engine]}")
    except ImportError as error:
        raise UserError(
            f"--to {engine} needs {error.name}, which is not installed: "
            f"{install_command('ctranslate2', 'onnx', 'onnxruntime')}"
        ) from error


def _write_model(writer: Any, engine: Engine, translator: TranslationModel, folder: Path) -> None:
    match engine:
        case "onnx":
            graphs = writer.export_recurrent(translator.model)
            (folder / "encoder.onnx").write_bytes(graphs.encoder.SerializeToString())
            (folder / "decoder.onnx").write_bytes(graphs.decoder.SerializeToString())
        case "ctranslate2":
            data, sides = translator.data, _sides(translator)
            if not data.target_end:
                raise UserError(
                    "--to ctranslate2 needs a model that generates the end of a text, but the run "
                    "has data.target_end false: train with data.target_end true"
                )
            pieces = {side: tokenizer.vocabulary for side, tokenizer in sides.items()}
            vocabularies = writer.Vocabularies(**pieces, ends_sources=data.source_end)
            writer.save_transformer(translator.model, vocabularies, folder)


def _sides(translator: TranslationModel) -> dict[str, Any]:
    return {"source": translator.tokenizers.source, "target": translator.tokenizers.target}


def _settings(translator: TranslationModel, engine: Engine) -> dict[str, Any]:
    """Return the settings that translating with the files needs. Without `max_length`, a text has
    at most `max_ratio` tokens per source token, rounded up, and `beyond_ratio` more."""
    data, search = translator.data, translator.experiment.search
    settings = {
        "engine": engine,
        "model": translator.experiment.name,
        "start": START,
        "end": END if data.target_end else None,
        "never_written": [PAD, START],
        "source_end": [END] if data.source_end else [],
        "tokenizer": data.tokenizer,
        "target_tokenizer": data.target_tokenizer or data.tokenizer,
        "min_length": search.min_length,
        "max_length": search.max_length,
        "max_ratio": search.max_ratio or DEFAULT_RATIO,
        "beyond_ratio": BEYOND_RATIO,
    }
    return {**settings, "search": _search(search)} if engine == "ctranslate2" else settings


def _search(search: SearchConfig) -> dict[str, Any]:
    """Return arguments of CTranslate2's `translate_batch` that give the same texts. CTranslate2
    stops a beam after `patience` times its size of finished hypotheses; Regard continues while a
    live hypothesis is ahead."""
    return {
        "beam_size": search.beam,
        "length_penalty": 0 if search.length_penalty == 0 else 1,
        "patience": 2 if search.early_stopping else 4,
        "min_decoding_length": search.min_length,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "suppress_sequences": [[SPECIAL[PAD]], [SPECIAL[START]]],
    }
