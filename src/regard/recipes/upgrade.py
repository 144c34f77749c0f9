"""Recipes and weights of older versions, upgraded in memory.

The configuration of a run says the version of its fields (`format: 2`). A file without a format is
of version 0.1 of Regard, format 1. There is one function for each older format, from the plain
values of a recipe to those of the next format, and one list of renamed tensors.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from regard.config.checks import format_value
from regard.errors import UserError
from regard.names import SizedScoreName

FORMAT = 2
"""Format of the configurations that this version writes."""
Values = dict[str, Any]

DATA_FIELDS = {
    "generated": "synthetic",
    "generated_size": "synthetic_size",
    "one_source_length": "equal_lengths",
    "pictures": "images",
    "picture_size": "image_size",
    "answer": "target",
}
"""Fields of the section `data` in format 1 that have other names now."""
COLUMNS = {"text_column": "source_column", "label_column": "target_column"}
"""Fields of the section `data` that were renamed within format 2."""
TRAINING_FIELDS = {"forced_by": "teacher_forcing_unit"}
ATTENTION: Values = {
    "score": "additive",
    "size": 256,
    "scope": "global",
    "window": 10,
    "normaliser": "softmax",
    "temperature": 1.0,
    "dropout": 0.0,
}
FAMILIES: dict[str, Values] = {
    "recurrent": {
        "wiring": "luong",
        "cell": "lstm",
        "hidden": 256,
        "encoder_hidden": None,
        "embedding": 256,
        "layers": 1,
        "bidirectional": False,
        "bridge": "linear",
        "output": "tanh",
        "feeding": "none",
        "query": "state",
        "keys": [-1],
        "values": [-1],
        "neighbours": 0,
        "key_positions": False,
        "memory_vectors": 0,
        "external": None,
        "external_shape": None,
        "looks_at_written": False,
        "dropout": 0.0,
        "tied": "none",
        "vectors": None,
        "attention": ATTENTION,
    },
    "transformer": {
        "size": 256,
        "layers": 3,
        "decoder_layers": None,
        "heads": 4,
        "feed_forward": 1024,
        "activation": "relu",
        "positions": "sinusoidal",
        "longest": 512,
        "norm": "pre",
        "dropout": 0.1,
        "activation_dropout": 0.0,
        "tied": "none",
        "window": None,
        "vectors": None,
        "attention": {**ATTENTION, "score": "scaled_dot", "size": 64},
    },
    "classifier": {
        "encoder": "recurrent",
        "pool": "attention",
        "query": "learned",
        "output": "linear",
        "embedding": 128,
        "cell": "lstm",
        "hidden": 128,
        "layers": 1,
        "bidirectional": True,
        "heads": 4,
        "feed_forward": 512,
        "positions": "sinusoidal",
        "longest": 512,
        "window": None,
        "dropout": 0.3,
        "vectors": None,
        "attention": {**ATTENTION, "size": 128},
    },
    "captioner": {
        "channels": [32, 64, 128],
        "backbone": None,
        "backbone_learns": False,
        "decoder": "recurrent",
        "size": 256,
        "embedding": 128,
        "looks": "soft",
        "gate": True,
        "output": "summed",
        "doubly_stochastic": 1.0,
        "reward": 0.005,
        "entropy": 0.002,
        "layers": 2,
        "heads": 4,
        "feed_forward": 512,
        "dropout": 0.1,
        "attention": {**ATTENTION, "size": 128},
    },
}
"""Fields of the section `model` in format 1, by family, with their defaults."""
FAMILY_TASKS = {
    "recurrent": "translate",
    "transformer": "translate",
    "classifier": "classify",
    "captioner": "caption",
}
RENAMED = {
    **{f"data.{old}": f"data.{new}" for old, new in (DATA_FIELDS | COLUMNS).items()},
    **{f"training.{old}": f"training.{new}" for old, new in TRAINING_FIELDS.items()},
    "model.hidden": "model.size",
    "model.encoder_hidden": "model.encoder.size",
    "model.embedding": "model.encoder.embedding and model.decoder.embedding",
    "model.bidirectional": "model.encoder.bidirectional",
    "model.cell": "model.encoder.cell and model.decoder.cell",
    "model.layers": "model.encoder.layers and model.decoder.layers",
    "model.decoder_layers": "model.decoder.layers",
    "model.heads": "model.encoder.heads and model.decoder.heads",
    "model.feed_forward": "model.encoder.feed_forward and model.decoder.feed_forward",
    "model.positions": "model.encoder.positions and model.decoder.positions",
    "model.longest": "model.encoder.max_positions and model.decoder.max_positions",
    "model.norm": "model.encoder.norm and model.decoder.norm",
    "model.window": "model.encoder.window and model.decoder.window",
    "model.keys": "model.decoder.key_layers",
    "model.values": "model.decoder.value_layers",
    "model.neighbours": "model.decoder.context_window",
    "model.external": "model.decoder.extra_vectors",
    "model.looks_at_written": "model.decoder.intra_attention",
    "model.pool": "model.head.kind",
    "model.channels": "model.encoder.channels",
    "model.backbone": "model.encoder.kind backbone with model.encoder.name",
    "model.backbone_learns": "model.encoder.fine_tune",
    "model.looks": "model.decoder.attention.sampling",
}
"""Fields of format 1 with the fields that have their meaning now, for messages."""
TENSORS: tuple[tuple[str, str], ...] = (
    (r"\.looks\b", ".attentions"),
    (r"\.look\b", ".attention"),
    (r"\bremember\b", "build_memory"),
    (r"^readout\b", "head"),
    (r"\bplaces\b", "positions"),
    (r"\binto\b", "projection"),
    (r"\bjoined\b", "projection"),
    (r"\baround_(self|cross|feed_forward)\b", r"\1_residual"),
    (r"\bpast\.(taken|seen)\b", "history.projection"),
    (r"\bpast\b", "history"),
    (r"\bquery\.query$", "query.vector"),
)
"""Patterns of tensor names in format 1, each with the replacement that gives today's name."""
BACKBONE = "encoder.backbone."
"""Prefix of the tensors of a pretrained network, whose names its authors chose."""


def format_of(values: Values) -> int:
    """Return the format of a recipe. UserError for one that this version does not know."""
    number = values.get("format", 1)
    if type(number) is not int or number < 1:
        raise UserError(
            f"format is {format_value(number)}: expected a whole number from 1 to {FORMAT}"
        )
    if number > FORMAT:
        raise UserError(
            f"format is {number}, but this version of Regard reads formats up to {FORMAT}: "
            "install a newer version"
        )
    return number


def upgrade(values: Values, *, is_run: bool) -> Values:
    """Return the values of a recipe in the present format, without the field `format`.

    A recipe without a format is of format 1 only if it has a field of that format. UserError if it
    mixes fields of both."""
    number, is_known = format_of(values), is_run or "format" in values
    values = {name: value for name, value in values.items() if name != "format"}
    values = _with_columns(values)
    if number == FORMAT or not (is_known or _old_fields(values)):
        return values
    part = _part_of_format_2(values)
    if part:
        raise UserError(_mixed(part, _old_fields(values)))
    if is_run:
        values = _with_data_seed(values)
    return upgrade_from_1(values)


def upgrade_from_1(values: Values) -> Values:
    """Return the values of a recipe of format 1 in format 2. Values of wrong types are unchanged:
    the checks of the fields reject them."""
    data, model = values.get("data", {}), values.get("model", {})
    upgraded = dict(values)
    family = model.get("family") if isinstance(model, dict) else None
    if isinstance(data, dict):
        data = _renamed("data", data, DATA_FIELDS)
        if isinstance(family, str) and "task" not in data:
            data = {"task": FAMILY_TASKS.get(family, "translate"), **data}
        upgraded["data"] = data
    training = values.get("training")
    if isinstance(training, dict):
        upgraded["training"] = _training(training)
    if isinstance(data, dict) and isinstance(model, dict):
        task = data.get("task", "translate")
        known_task = FAMILY_TASKS.get(family) if isinstance(family, str) else None
        if known_task is not None and task in FAMILY_TASKS.values() and task != known_task:
            raise UserError(
                f"model.family is {family}, which is of data.task {known_task}, but data.task is "
                f"{task}: change either"
            )
        usual = next((name for name, known in FAMILY_TASKS.items() if known == task), "recurrent")
        upgraded["model"] = _model(usual if family is None else family, model)
    return upgraded


def upgrade_tensor_name(name: str, number: int) -> str:
    """Return today's name of a tensor, or of a module, in a run of this format."""
    if number < 2 and not name.startswith(BACKBONE):
        for pattern, replacement in TENSORS:
            name = re.sub(pattern, replacement, name)
    return name


def _training(training: Values) -> Values:
    """Return the section `training` in format 2, with today's names of the frozen modules."""
    upgraded = _renamed("training", training, TRAINING_FIELDS)
    names = upgraded.get("freeze")
    if isinstance(names, list):
        upgraded["freeze"] = [
            upgrade_tensor_name(name, 1) if isinstance(name, str) else name for name in names
        ]
    return upgraded


def _model(family: object, model: Values) -> Values:
    """Return the section `model` in format 2."""
    if not isinstance(family, str) or family not in FAMILIES:
        raise UserError(f"model.family is {format_value(family)}: expected {', '.join(FAMILIES)}")
    defaults = FAMILIES[family]
    old = {**defaults, **model}
    attention = model.get("attention", {})
    if isinstance(attention, dict):
        old["attention"] = {**defaults["attention"], **attention}
    match family:
        case "recurrent":
            upgraded = _recurrent(old)
        case "transformer":
            upgraded = _transformer(old)
        case "classifier":
            upgraded = _classifier(old)
        case _:
            upgraded = _captioner(old)
    unknown = {name: old[name] for name in model if name not in {*defaults, "family"}}
    return {**upgraded, **unknown}


def _recurrent(old: Values) -> Values:
    hidden = old["hidden"] if old["encoder_hidden"] is None else old["encoder_hidden"]
    decoder = {
        "kind": "recurrent",
        **_fields(old, "wiring", "cell", "embedding", "layers", "bridge", "output", "feeding"),
        "size": old["hidden"],
        "query": "same_position" if old["query"] == "same_place" else old["query"],
        "key_layers": old["keys"],
        "value_layers": old["values"],
        "context_window": old["neighbours"],
        **_fields(old, "key_positions", "memory_vectors"),
        "extra_vectors": old["external"],
        "extra_vectors_shape": old["external_shape"],
        "intra_attention": old["looks_at_written"],
    }
    if old["wiring"] != "plain":
        decoder["attention"] = _decoder_attention(old["attention"])
    return {
        "size": old["hidden"],
        "dropout": old["dropout"],
        "encoder": _recurrent_encoder(old, hidden),
        "decoder": decoder,
        **_fields(old, "tied", "vectors"),
    }


def _transformer(old: Values) -> Values:
    part = {
        "kind": "transformer",
        **_fields(old, "heads", "feed_forward", "activation", "positions", "norm"),
        **_fields(old, "activation_dropout", "window"),
        "max_positions": old["longest"],
        "attention": _attention(old["attention"]),
    }
    num_decoder_layers = old["layers"] if old["decoder_layers"] is None else old["decoder_layers"]
    return {
        **_fields(old, "size", "dropout"),
        "encoder": {**part, "layers": old["layers"]},
        "decoder": {**part, "layers": num_decoder_layers},
        **_fields(old, "tied", "vectors"),
    }


def _classifier(old: Values) -> Values:
    match old["encoder"]:
        case "transformer":
            encoder = {
                "kind": "transformer",
                "size": old["embedding"],
                **_fields(old, "layers", "heads", "feed_forward", "positions", "window"),
                "max_positions": old["longest"],
            }
        case "embedding":
            encoder = {"kind": "bag_of_words", "size": old["embedding"]}
        case "recurrent":
            encoder = _recurrent_encoder(old, old["hidden"])
        case _:
            encoder = {"kind": old["encoder"]}
    head = {"kind": old["pool"], "output": old["output"]}
    if old["pool"] == "attention":
        head |= {"query": old["query"], "attention": _attention(old["attention"])}
    size = encoder.get("size", old["embedding"])
    return {
        "size": size,
        "dropout": old["dropout"],
        "encoder": encoder,
        "head": head,
        "vectors": old["vectors"],
    }


def _captioner(old: Values) -> Values:
    channels, is_transformer = old["channels"], old["decoder"] == "transformer"
    if is_transformer and isinstance(channels, list) and channels:
        channels = [*channels[:-1], old["size"]]
    if old["backbone"] is None:
        encoder = {"kind": "convolutional", "channels": channels}
    else:
        encoder = {
            "kind": "backbone",
            "name": old["backbone"],
            "fine_tune": old["backbone_learns"],
            "size": channels[-1] if isinstance(channels, list) and channels else channels,
        }
    decoder: Values = {"kind": old["decoder"], "size": old["size"]}
    if is_transformer:
        decoder |= _fields(old, "layers", "heads", "feed_forward")
    else:
        attention = _decoder_attention(old["attention"])
        if isinstance(attention, dict):
            attention["sampling"] = old["looks"]
            read = ("reward", "entropy") if old["looks"] == "hard" else ("doubly_stochastic",)
            attention |= _fields(old, *read)
        decoder |= {
            "wiring": "bahdanau",
            "cell": "lstm",
            **_fields(old, "embedding", "output", "gate"),
            "attention": attention,
        }
    return {**_fields(old, "size", "dropout"), "encoder": encoder, "decoder": decoder}


def _recurrent_encoder(old: Values, hidden: Any) -> Values:
    """Return the encoder. In format 1, its size was that of one direction."""
    is_bidirectional = old["bidirectional"] is True and type(hidden) is int
    return {
        "kind": "recurrent",
        **_fields(old, "cell", "embedding", "layers", "bidirectional"),
        "size": 2 * hidden if is_bidirectional else hidden,
    }


def _decoder_attention(old: Any) -> Any:
    """Return the attention without a size or window that no score or scope reads."""
    if not isinstance(old, dict):
        return old
    upgraded = dict(old)
    if old["scope"] == "global":
        del upgraded["window"]
    if old["score"] not in get_args(SizedScoreName) and old["scope"] != "local_p":
        del upgraded["size"]
    return upgraded


def _attention(old: Any) -> Any:
    """Return the attention without the scope, which only recurrent decoders read."""
    upgraded = _decoder_attention(old)
    if isinstance(upgraded, dict) and upgraded["scope"] == "global":
        del upgraded["scope"]
    return upgraded


def _fields(old: Values, *names: str) -> Values:
    return {name: old[name] for name in names}


def _renamed(place: str, section: Values, names: dict[str, str]) -> Values:
    """Return a section with today's names. UserError for a field with both names."""
    for name in section:
        if names.get(name) in section:
            raise UserError(
                f"{place}.{name} is an old name of {place}.{names[name]}, and the recipe has both: "
                f"leave {place}.{name} out"
            )
    return {names.get(name, name): value for name, value in section.items()}


def _with_columns(values: Values) -> Values:
    """Return the values with today's names of the columns of a table."""
    data = values.get("data")
    if not isinstance(data, dict) or not COLUMNS.keys() & data.keys():
        return values
    return {**values, "data": _renamed("data", data, COLUMNS)}


def _with_data_seed(values: Values) -> Values:
    """In early runs of format 1 training.seed decided the split."""
    data, training = values.get("data", {}), values.get("training", {})
    if not isinstance(data, dict) or not isinstance(training, dict) or "seed" in data:
        return values
    return {**values, "data": {**data, "seed": training.get("seed", 1)}}


def _old_fields(values: Values) -> list[str]:
    """Fields of a recipe that only format 1 has, by their full names."""
    names = list[str]()
    for section, known in (("data", DATA_FIELDS), ("training", TRAINING_FIELDS)):
        part = values.get(section)
        if isinstance(part, dict):
            names += [f"{section}.{name}" for name in part if name in known]
    model = values.get("model")
    if isinstance(model, dict):
        old = {"family"}.union(*FAMILIES.values()) - {"size", "dropout", "tied", "vectors"}
        for name, value in model.items():
            is_part = name in ("encoder", "decoder")
            if name in old and not (is_part and not isinstance(value, str)):
                names.append(f"model.{name}")
    return names


def _part_of_format_2(values: Values) -> str:
    """Name of the first part of format 2 in the model of a recipe. Empty if there is none."""
    model = values.get("model")
    if not isinstance(model, dict):
        return ""
    parts = [name for name in ("encoder", "decoder") if isinstance(model.get(name), dict)]
    parts += [name for name in ("head",) if name in model]
    return f"model.{parts[0]}" if parts else ""


def _mixed(part: str, old: list[str]) -> str:
    """Message about a recipe of format 1 with a part of format 2."""
    if not old:
        return (
            f"{part} has fields of format {FORMAT}, but the file is of format 1: write the line "
            f"`format: {FORMAT}`"
        )
    today = RENAMED.get(old[0])
    remedy = f"write {today} instead" if today else "leave it out"
    return f"{old[0]} is a field of version 0.1, but the recipe also has {part}: {remedy}"
