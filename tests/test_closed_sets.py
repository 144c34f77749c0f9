"""Every closed set of names is defined in `regard.names`. Suites and oracles test every name, a
table of the pages explains it, and an option accepts it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from regard import names
from regard.cli import data, main
from regard.cli.analysis import plot
from regard.cli.inference import export, translate
from regard.compiled.recurrent import cells, layers, native_cells
from regard.config import DATA_SECTIONS, KINDS, MODELS, SearchConfig, TrainingConfig
from regard.config.checks import choices_of, field_types
from regard.config.parts.attention import AttentionConfig, DecoderAttentionConfig
from regard.layers.recurrent.cells import NUM_GATES
from regard.layers.recurrent.layers import LAYERS
from regard.metrics.captions import CAPTION_METRICS
from regard.metrics.classification import LABEL_METRICS, NUMBER_METRICS
from regard.metrics.error_rates import ERROR_RATES
from regard.metrics.text import TEXT_METRICS
from regard.numerics import product_library
from regard.pipeline.train import settings_of
from regard.tasks.all_tasks import TASKS
from regard.tasks.training.objectives import objective_of
from regard.training.log import Line
from regard.training.objectives.distillation import DIVERGENCES
from regard.training.trackers import PACKAGES
from tests.attention import parts
from tests.contracts import choices, test_attention, test_attention_kinds, test_classifiers
from tests.data.text import test_tokenizer
from tests.docs.pages import ROOT, pages
from tests.oracles import attention_gradients
from tests.pipeline.test_load import USES
from tests.test_trace import full_trace
from tests.training import test_schedule

SECTIONS: dict[str, set[Any]] = {
    "data": {*DATA_SECTIONS.values()},
    "model": {*MODELS.values()},
    **{
        f"model.{part}": {
            record for kinds in KINDS.values() for record in kinds.get(part, {}).values()
        }
        for part in ("encoder", "decoder", "head")
    },
    "attention": {AttentionConfig, DecoderAttentionConfig},
    "training": {TrainingConfig},
    "search": {SearchConfig},
    **{
        f"regard {command.__name__.rpartition('.')[2]}": {command.Options}
        for command in (data, export, plot, translate)
    },
}
"""Records of options: the sections of a recipe, and commands with names of their own."""
DOWNLOADS = Path(names.__file__).parent / "data" / "download"
METRICS = chain(TEXT_METRICS, ERROR_RATES, CAPTION_METRICS, LABEL_METRICS, NUMBER_METRICS)


@dataclass(frozen=True)
class Uses:
    """Places that list the names of a set."""

    suites: Mapping[str, Collection[str]]
    """Names that each suite or oracle lists."""
    options: tuple[str, ...] = ()
    """Options whose values are the names, as section and field."""
    pages: tuple[str, ...] = ()
    """Page and field of the tables that explain the names."""
    reason: str = ""
    """Reason why no option or no page has the names."""


def strings(*modules: str) -> Collection[str]:
    """Return the string constants of test modules, and the strings in quotes inside them."""
    trees = (ast.parse((ROOT / "tests" / f"{module}.py").read_text("utf-8")) for module in modules)
    nodes = chain.from_iterable(map(ast.walk, trees))
    texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    return texts | {name for text in texts for name in re.findall('"(.+?)"', text)}


def parts_of(model: str, part: str, usual: str = "") -> Collection[str]:
    """Return the values of an option in the cases of a suite."""
    cases = {"captioners": choices.CAPTIONERS, "heads": test_classifiers.HEADS}[model]
    return {case.get(part, usual) for case in cases.values()}


ENCODERS = {encoder for encoder, *_ in test_classifiers.cases()}
PAIRS = {part: set(kinds) for part, kinds in KINDS["translate"].items()}
"""Kinds that `tests/contracts/test_sequence_models.py` combines."""
CHOICES = "choices.md"
SETS = {
    "TaskName": Uses({"tasks": TASKS, "loading": USES}, ("data task",), ("options.md data.task",)),
    "SplitName": Uses(
        {"readers": strings("data/labels/test_readers")}, reason="names of files, not an option"
    ),
    "GeneratedPairs": Uses(
        {"generated": strings("data/generated/test_sequences", "data/generated/test_numbers")},
        ("data synthetic",),
        ("data.md regard data",),
    ),
    "GeneratedLabels": Uses(
        {"generated": strings("data/generated/test_answered")},
        ("data synthetic",),
        ("data.md regard data",),
    ),
    "GeneratedImages": Uses(
        {"runs": strings("corpora/test_sources")}, ("data synthetic",), ("data.md regard data",)
    ),
    "ExampleTable": Uses(
        {"examples": strings("data/generated/test_example_files")},
        ("regard data name",),
        ("data.md regard data",),
    ),
    "ExampleImages": Uses(
        {"examples": strings("cli/test_commands")},
        ("regard data name",),
        ("data.md regard data",),
    ),
    "Example": Uses(
        {
            "the sets of examples": [
                name
                for part in ("ExampleTable", "ExampleImages")
                for name in get_args(getattr(names, part))
            ]
        },
        ("regard data name",),
        ("data.md regard data",),
    ),
    "Download": Uses(
        {"modules": {path.stem for path in DOWNLOADS.glob("*.py")}},
        ("regard data name",),
        ("data.md regard data",),
    ),
    "Dataset": Uses(
        {
            "the sets of generated and downloaded data": [
                name
                for part in (
                    *("Example", "Download", "GeneratedPairs", "GeneratedLabels"),
                    "GeneratedImages",
                )
                for name in get_args(getattr(names, part))
            ]
        },
        ("regard data name",),
        ("data.md regard data",),
    ),
    "SourceKind": Uses(
        {"classifiers": test_classifiers.SOURCES},
        ("data source",),
        ("classification.md data.source",),
    ),
    "TargetKind": Uses(
        {"classification": strings("tasks/classification/test_training")},
        ("data target",),
        ("classification.md data.target",),
    ),
    "TokenizerKind": Uses(
        {"tokenizer": test_tokenizer.KINDS},
        ("data tokenizer", "data target_tokenizer"),
        ("data.md data.tokenizer",),
    ),
    "Side": Uses(
        {"alignments": strings("tasks/translation/test_initialisation")},
        reason="a word of messages",
    ),
    "VocabularySide": Uses(
        {"alignments": strings("tasks/translation/test_initialisation")},
        reason="a word of messages",
    ),
    "LinkUnit": Uses(
        {"alignment": strings("metrics/test_alignment")},
        (),
        ("figures.md --links",),
        reason="an option has TextUnit",
    ),
    "TextUnit": Uses(
        {"links": strings("tasks/test_links_at_spaces") | strings("metrics/test_alignment")},
        ("regard translate links",),
        ("figures.md --links",),
    ),
    "UnknownRule": Uses(
        {"search": strings("tasks/captioning/test_training", "tasks/translation/test_model")},
        ("search unknown",),
        ("search.md search.unknown",),
    ),
    "OverlayScale": Uses(
        {"overlay": strings("viewing/test_overlay")},
        ("regard plot scale",),
        ("captioning.md --scale",),
    ),
    "TableFormat": Uses(
        {
            "formats": strings(
                "data/recognition/test_formats",
                "data/files/test_named_rows",
                "data/files/test_objects",
                "data/files/test_workbooks",
                "data/recognition/test_table",
            )
        },
        reason="recognised from the file",
    ),
    "ColumnKind": Uses(
        {"columns": strings("data/recognition/test_kinds")},
        reason="recognised from the cells",
    ),
    "DecimalMark": Uses(
        {"decimals": strings("data/recognition/test_decimals")},
        ("data decimal_mark",),
        ("options.md data.decimal_mark",),
    ),
    "Severity": Uses(
        {"checks": strings("tasks/training/test_checks")},
        ("data checks",),
        ("options.md data.checks",),
    ),
    "Fault": Uses(
        {
            "lines": strings(
                *("data/files/test_lines", "data/files/test_headers", "data/text/test_parallel"),
                *(
                    "data/files/test_named_rows",
                    "data/recognition/test_other_rows",
                    "data/files/test_rows",
                    "data/recognition/test_decimals",
                    "data/labels/test_numeric",
                ),
            )
        },
        reason="messages write `MEANINGS` instead",
    ),
    "TextEncoderKind": Uses(
        {"sequence models": PAIRS["encoder"], "classifiers": ENCODERS},
        ("model.encoder kind",),
        (f"{CHOICES} model.encoder.kind", "classification.md model.encoder.kind"),
    ),
    "ImageEncoderKind": Uses(
        {"captioners": parts_of("captioners", "encoder", "convolutional")},
        ("model.encoder kind",),
        (f"{CHOICES} model.encoder.kind", "captioning.md model.encoder.kind"),
    ),
    "DecoderKind": Uses(
        {
            "sequence models": PAIRS["decoder"],
            "captioners": parts_of("captioners", "decoder", "recurrent"),
        },
        ("model.decoder kind",),
        (f"{CHOICES} model.decoder.kind", "captioning.md model.decoder.kind"),
    ),
    "HeadKind": Uses(
        {"classifiers": parts_of("heads", "head", "attention")},
        ("model.head kind",),
        (f"{CHOICES} model.head.kind", "classification.md model.head.kind"),
    ),
    "HeadQueryKind": Uses(
        {"classifiers": parts_of("heads", "query", "learned")},
        ("model.head query",),
        ("classification.md model.head.query",),
    ),
    "HeadOutputKind": Uses(
        {"classifiers": parts_of("heads", "output", "linear")},
        ("model.head output",),
        ("classification.md model.head.output",),
    ),
    "CellKind": Uses(
        {
            "sequence models": choices.RECURRENT["cell"],
            "formulas": NUM_GATES,
            "gradients": cells.NUM_SAVED,
            "kernels": native_cells.KINDS,
            "oracle (PyTorch's layers)": LAYERS,
            "oracle (PyTorch's steps)": layers.STEPS,
        },
        ("model.encoder cell", "model.decoder cell"),
        (f"{CHOICES} model.encoder.cell", f"{CHOICES} model.decoder.cell"),
    ),
    "Wiring": Uses(
        {"sequence models": {wiring for wiring, _ in choices.WIRINGS}},
        ("model.decoder wiring",),
        (f"{CHOICES} model.decoder.wiring",),
    ),
    "FeedingKind": Uses(
        {"sequence models": {feeding for _, feeding in choices.WIRINGS}},
        ("model.decoder feeding",),
        (f"{CHOICES} model.decoder.feeding",),
    ),
    "ConnectionKind": Uses(
        {"sequence models": choices.RECURRENT["connections"]},
        ("model.encoder connections", "model.decoder connections"),
        (f"{CHOICES} model.decoder.connections",),
    ),
    "BridgeKind": Uses(
        {"sequence models": choices.RECURRENT["bridge"]},
        ("model.decoder bridge",),
        (f"{CHOICES} model.decoder.bridge",),
    ),
    "OutputKind": Uses(
        {"sequence models": choices.RECURRENT["output"]},
        ("model.decoder output",),
        (f"{CHOICES} model.decoder.output",),
    ),
    "QueryKind": Uses(
        {"sequence models": choices.RECURRENT["query"]},
        ("model.decoder query",),
        (f"{CHOICES} model.decoder.query",),
    ),
    "CopyKind": Uses(
        {"sequence models": ("none", *choices.COPY)}, ("model copy",), (f"{CHOICES} model.copy",)
    ),
    "TiedWeights": Uses(
        {"sequence models": ("none", *choices.TIED)}, ("model tied",), (f"{CHOICES} model.tied",)
    ),
    "Activation": Uses(
        {"sequence models": choices.TRANSFORMERS["activation"]},
        ("model.encoder activation", "model.decoder activation"),
        ("transformer.md activation",),
    ),
    "AddedPositionKind": Uses(
        {"sequence models": choices.CONVOLUTIONS["positions"]},
        ("model.encoder positions", "model.decoder positions"),
        ("convolution.md positions",),
    ),
    "PositionKind": Uses(
        {"sequence models": choices.TRANSFORMERS["positions"]},
        ("model.encoder positions", "model.decoder positions"),
        ("transformer.md positions",),
    ),
    "NormPlacement": Uses(
        {"sequence models": choices.TRANSFORMERS["norm"]},
        ("model.encoder norm", "model.decoder norm"),
        ("transformer.md norm",),
    ),
    "AttentionKind": Uses(
        {"traces": {block.kind for block in full_trace().attention}},
        ("regard plot kind",),
        ("figures.md --kind",),
    ),
    "ScoreName": Uses(
        {
            "attention": parts.SCORE_KINDS,
            "oracle in NumPy": parts.JUDGES,
            "oracle of gradients": parts.FORMULAS,
            "recurrent decoders": choices.RECURRENT["score"],
            "Transformers": choices.TRANSFORMERS["score"],
            "help": names.SCORE_EXPLANATIONS,
        },
        ("attention score",),
        ("attention.md score",),
    ),
    "HistoryScoreName": Uses(
        {
            "attention": parts.HISTORIES,
            "oracle in NumPy": parts.HISTORY_JUDGES,
            "recurrent decoders": choices.RECURRENT["score"],
            "help": names.SCORE_EXPLANATIONS,
        },
        ("attention score",),
        (f"{CHOICES} model.decoder.attention.score",),
    ),
    "SizedScoreName": Uses(
        {"names": [*get_args(names.ScoreName), *get_args(names.HistoryScoreName)]},
        ("attention score",),
        ("options.md model.decoder.attention.size",),
    ),
    "EqualSizesScoreName": Uses(
        {"names": get_args(names.ScoreName)}, ("attention score",), ("attention.md score",)
    ),
    "NormaliserName": Uses(
        {
            "attention": parts.NORMALISERS,
            "oracle of gradients": attention_gradients.NORMALISERS,
            "recurrent decoders": choices.RECURRENT["normaliser"],
            "Transformers": choices.TRANSFORMERS["normaliser"],
        },
        ("attention normaliser",),
        ("attention.md normaliser",),
    ),
    "CountAnswer": Uses(
        {"counting": strings("tasks/counting/test_counting")},
        reason="an option of main.py; docs/counting.md explains it",
    ),
    "AttentionScope": Uses(
        {
            "attention": test_attention_kinds.SCOPES,
            "recurrent decoders": choices.RECURRENT["scope"],
        },
        ("attention scope",),
        (f"{CHOICES} model.decoder.attention.scope",),
    ),
    "Sampling": Uses(
        {"attention": test_attention_kinds.SAMPLING},
        ("attention sampling",),
        (
            f"{CHOICES} model.decoder.attention.sampling",
            "captioning.md model.decoder.attention.sampling",
        ),
    ),
    "Precision": Uses(
        {"attention": test_attention.TYPES},
        ("search precision", "training precision"),
        ("options.md search.precision",),
    ),
    "SearchPrecision": Uses(
        {"searches": strings("tasks/translation/test_model", "pipeline/test_families")},
        ("search precision",),
        ("options.md search.precision", "search.md search.precision"),
    ),
    "TrainingPrecision": Uses(
        {"training": strings("runtime/test_instruction_set", "pipeline/test_train")},
        ("training precision",),
        ("options.md training.precision",),
    ),
    "Sharding": Uses(
        {"processes": strings("e2e/test_sharding")},
        ("training sharding",),
        ("options.md training.sharding",),
    ),
    "ProductLibrary": Uses(
        {"products": strings("numerics/test_product_library")},
        reason="a table of measurements chooses",
    ),
    "ShapeClass": Uses(
        {
            "products": strings("numerics/test_product_library"),
            "table": {name for libraries in product_library.table().values() for name in libraries},
        },
        reason="follows from the sizes of a product",
    ),
    "DeviceName": Uses(
        {"devices": strings("runtime/test_device")},
        ("training device",),
        ("options.md training.device",),
    ),
    "ScheduleName": Uses(
        {"schedules": test_schedule.SCHEDULES},
        ("training schedule",),
        ("training.md training.schedule",),
    ),
    "TimeUnit": Uses(
        {"settings": strings("training/test_settings")},
        ("training log_by",),
        ("options.md training.log_by",),
    ),
    "LossUnit": Uses(
        {"loss": strings("training/losses/test_loss")},
        ("training loss",),
        ("options.md training.loss",),
    ),
    "ObjectiveName": Uses(
        {"objectives": strings("tasks/training/test_sampling", "tasks/training/test_objectives")},
        ("training objective",),
        ("training.md training.objective",),
    ),
    "DivergenceName": Uses(
        {
            "divergences": set(DIVERGENCES),
            "oracle": strings("training/objectives/test_distillation"),
        },
        ("training divergence",),
        ("training.md training.divergence",),
    ),
    "RewardName": Uses(
        {"rewards": strings("tasks/training/test_sampling")},
        ("training reward",),
        ("options.md training.reward",),
    ),
    "ForcingUnit": Uses(
        {"teacher forcing": strings("training/objectives/test_teacher_forcing")},
        ("training teacher_forcing_unit",),
        ("options.md training.teacher_forcing_unit",),
    ),
    "MetricName": Uses(
        {"metrics": {metric.name for metric in METRICS}},
        ("training metric",),
        ("evaluation.md training.metric",),
    ),
    "LineKind": Uses(
        {"lines of the log": {line.kind for line in get_args(Line)}},
        pages=("training.md kind",),
        reason="written by training, not an option",
    ),
    "Ending": Uses(
        {"training": strings("training/test_loop", "training/test_log", "runtime/test_signals")},
        pages=("training.md end",),
        reason="written by training, not an option",
    ),
    "TrackerName": Uses(
        {"trackers": strings("training/test_trackers"), "packages": set(PACKAGES)},
        ("training track",),
        ("tracking.md training.track",),
    ),
    "LengthPenaltyName": Uses(
        {"export": strings("pipeline/test_export")},
        ("search length_penalty",),
        ("options.md search.length_penalty",),
    ),
    "Figure": Uses(
        {
            "tasks": {
                task.figure_of(kind)
                for task in TASKS.values()
                for kind in get_args(names.AttentionKind)
            }
        },
        reason="the task chooses",
    ),
    "Engine": Uses(
        {"export": strings("pipeline/test_export")}, ("regard export to",), ("exporting.md --to",)
    ),
}


def closed_sets() -> dict[str, tuple[str, ...]]:
    """Return the names of every set in `regard.names`."""
    return {
        name: get_args(value) for name, value in vars(names).items() if get_origin(value) is Literal
    }


def missing_of(name: str, listed: Collection[str]) -> list[str]:
    """Return the names of a set that a place does not list."""
    return [member for member in closed_sets()[name] if member not in listed]


every_set = pytest.mark.parametrize("name", SETS)


def test_every_set_has_its_line():
    assert closed_sets().keys() == SETS.keys()


@every_set
def test_suites_and_oracles_have_every_name(name: str):
    missing = {suite: missing_of(name, listed) for suite, listed in SETS[name].suites.items()}
    assert not any(missing.values()), f"suites miss names of {name}: {missing}"


@every_set
def test_options_accept_every_name(name: str):
    assert SETS[name].options or SETS[name].reason
    for option in SETS[name].options:
        section, _, field_name = option.rpartition(" ")
        records = [record for record in SECTIONS[section] if field_name in field_types(record)]
        accepted = {
            choice for record in records for choice in choices_of(field_types(record)[field_name])
        }
        assert not missing_of(name, accepted), option


@every_set
def test_a_table_explains_every_name(name: str):
    assert SETS[name].pages or SETS[name].reason
    tables = {page: explained_by(*page.split(" ", 1)) for page in SETS[name].pages}
    missing = {page: missing_of(name, listed) for page, listed in tables.items()}
    assert not any(missing.values()), f"tables in docs/ miss names of {name}: {missing}"


def explained_by(page: str, field_name: str) -> set[str]:
    """Return the names that a page lists for a field: in the first column of a table whose heading
    or header has the field, or in a row or an item of a list that begins with the field."""
    mark, heading, header, begin, listed = f"`{field_name}`", "", "", "", set[str]()
    for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
        if not line.startswith("|"):
            header = ""
            heading = line if line.startswith("#") else heading
            begin = line if line.startswith("- **") else begin if line.startswith("  ") else ""
            listed |= codes(line) if mark in begin.partition(":")[0] else set()
            continue
        first, *rest = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        header, begin = header or first, first or begin
        if mark in header or mark in heading:
            listed |= codes(first)
        if mark in begin:
            values = " ".join(rest)
            listed |= set(re.findall(r"\w+", values)) if page == "options.md" else codes(values)
    return listed


def codes(text: str) -> set[str]:
    """Return the words in backticks."""
    return set(re.findall(r"`([^`\s]+)`", text))


def test_every_option_with_names_has_a_set():
    """Options have no sets of their own, besides the kind of one record."""
    sets = {frozenset(members) for members in closed_sets().values()}
    unions = {a | b for a in sets for b in sets}
    for section, records in SECTIONS.items():
        for record in records:
            for field_name, hint in field_types(record).items():
                members = frozenset(choices_of(hint))
                if len(members) > 1:
                    assert members in unions, (section, field_name)


def test_kinds_of_parts_are_in_their_sets():
    sets = closed_sets()
    for task, parts_of_task in KINDS.items():
        encoders = "ImageEncoderKind" if task == "caption" else "TextEncoderKind"
        set_names = {"encoder": encoders, "decoder": "DecoderKind", "head": "HeadKind"}
        for part, kinds in parts_of_task.items():
            assert set(kinds) == set(sets[set_names[part]]), (task, part)


@pytest.mark.parametrize("command", main.COMMANDS)
def test_a_page_has_every_command(command: str):
    read = (page for page in pages() if page.parent.name == "docs" or page == ROOT / "README.md")
    texts = (page.read_text("utf-8") for page in read)
    assert any(f"regard {command}" in text for text in texts)


def test_sets_are_defined_in_names_alone():
    package = Path(names.__file__).parent
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_set = (
                isinstance(node, ast.Subscript)
                and isinstance(node.value, ast.Name)
                and node.value.id == "Literal"
                and isinstance(node.slice, ast.Tuple)
            )
            assert not is_set or path.name == "names.py", f"{path}:{node.lineno}"


@pytest.mark.parametrize("name", get_args(names.ScheduleName))
def test_a_schedule_is_built_by_its_name(name: str):
    config = TrainingConfig(schedule=name, warmup=7)
    settings = settings_of(config, objective_of(config), "float32")
    assert settings.optimiser.schedule == test_schedule.SCHEDULES[name](7)
