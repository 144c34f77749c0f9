"""Wrong options: each gets one line that names the option, what came and what was expected."""

import shlex
from dataclasses import is_dataclass
from pathlib import Path
from typing import Literal

import pytest

from regard import recipes
from regard.cli import main
from regard.cli.analysis.plot import Options as PlotOptions
from regard.cli.inference.score import Options as ScoreOptions
from regard.cli.parsing import options
from regard.cli.training.average import Options as AverageOptions
from regard.cli.training.check import Options as CheckOptions
from regard.cli.training.check import run
from regard.cli.training.train import Options
from regard.config import KINDS
from regard.config.checks import alternatives, field_types
from regard.errors import UsageError, UserError
from tests.cli.test_commands import regard
from tests.messages import check_message

NUMBERS = ["three", "1,5", "", "1e400", "0x10", "9" * 5000, str(2**1100), "-1", "nan", "½", "1 2"]
CHOICES = ["", "x", "GRU!", "None ", "é", "\udcff"]
CHOICES_OF_KINDS = [
    (task, part, kind)
    for task, parts in KINDS.items()
    for part, kinds in parts.items()
    for kind in kinds
]


def default_of(task, part, kind):
    experiment = recipes.default({"data.task": task, f"model.{part}.kind": kind})
    return Options(recipe="copy", experiment=experiment)


def flags(record, *wanted, prefix="--"):
    """The options whose annotation has one of these types."""
    for name, hint in field_types(type(record)).items():
        value = getattr(record, name)
        if is_dataclass(value):
            yield from flags(value, *wanted, prefix=f"{prefix}{name}.")
            continue
        kinds = [getattr(kind, "__origin__", kind) for kind in alternatives(hint)]
        if any(kind in wanted for kind in kinds):
            yield f"{prefix}{name}".replace("_", "-")


def differs(flag, choice):
    """Whether the option belongs to the model, or this choice is the first of its task: the other
    sections are the same for all models of a task."""
    task, _, _ = choice
    first = next(known for known in CHOICES_OF_KINDS if known[0] == task)
    return flag.startswith("--model.") or choice == first


@pytest.mark.parametrize(("task", "part", "kind"), CHOICES_OF_KINDS)
def test_invalid_values_are_rejected_in_every_option(task, part, kind):
    default = default_of(task, part, kind)
    numbers, choices = (
        list(flags(default.experiment, *kinds)) for kinds in ((int, float), (Literal,))
    )
    assert len(numbers) > 20
    assert len(choices) > 5
    for names, values in ((numbers, NUMBERS), (choices, CHOICES)):
        for flag in names:
            for value in values if differs(flag, (task, part, kind)) else ():
                with pytest.raises(UserError, match=rf"^{flag} is .*: expected") as caught:
                    options.read(Options, [f"{flag}={value}"], default)
                assert "\n" not in str(caught.value)
                assert len(str(caught.value)) < 250


@pytest.mark.parametrize("value", [2**63, 2**64, 2**70, 2**40])
def test_whole_numbers_beyond_their_range_are_refused(value):
    for choice in CHOICES_OF_KINDS:
        default = default_of(*choice)
        for flag in flags(default.experiment, int):
            if (flag.endswith("seed") and value == 2**40) or not differs(flag, choice):
                continue
            with pytest.raises(UserError, match=rf"^{flag} is '{value}': expected"):
                options.read(Options, [flag, str(value)], default)


@pytest.mark.parametrize("task", KINDS)
def test_sections_beside_the_model_are_the_same_for_all_models_of_a_task(task):
    sections = set()
    for choice in CHOICES_OF_KINDS:
        if choice[0] == task:
            experiment = default_of(*choice).experiment
            sections.add(
                (type(experiment.data), type(experiment.training), type(experiment.search))
            )
    assert len(sections) == 1


def test_named_alternatives_to_numbers_are_accepted():
    default = default_of("translate", "decoder", "recurrent")
    words = ["--training.clip", "None", "--search.length-penalty", "average", "--data.synthetic"]
    words += [
        "None",
        "--model.decoder.key-layers",
        "0",
        "-1",
        "--training.adam-betas",
        "0.8",
        "0.9",
    ]
    values, rest = options.read(Options, words, default)
    assert not rest
    assert values["experiment.training.clip"] is None
    assert values["experiment.model.decoder.key_layers"] == (0, -1)
    assert values["experiment.training.adam_betas"] == (0.8, 0.9)


@pytest.mark.parametrize(
    "arguments",
    [
        "trian",
        "train luong",
        "train copy --training.epochs three",
        "train copy --training.epochs=1,5",
        "train copy --data.tokenizer chars",
        "train copy --model.decoder.attention.score addtive",
        "train copy --model.decoder.key-layers 0 b",
        "train copy --model.encoder.kind dilated_convolution --model.encoder.unfolding 1.2 -1",
        "train copy --training.adam-betas 0.9",
        "train copy --training.seed 18446744073709551616",
        "train copy --model.size 1099511627776",
        "train copy --model.decoder.extra-vectors /dev/zero",
        "train copy --model.decoder.extra-vectors /",
        "train trec --model.decoder.wiring luong",
        "train copy --model.decoder.kind transformer --model.decoder.wiring luong",
        "train copy --data.images x",
        "translate x --beam 4611686018427387904",
        "translate x --nbest 0",
        "translate x --length-penalty avg",
        "caption x y --beam 1e3",
        "evaluate x --examples -1",
        "check x --min-count 0",
        "check x --tokenizer word",
        "data numbers --size 99999999999999",
        "data numbers --seed -1",
        "plot x text --layer one",
        "train",
        "train copy more",
        "train copy missing",
        "train copy --data.limit 9 x.tsv",
        "train copy --model.family",
        "train copy --model.family --resume",
        "train labels --model.family classifier",
        "train copy --model.encoder.kind transformer --model.encoder.kind=recurrent",
        "train copy --model.encoder.kind=",
        "train copy --data.task=",
        "train copy --data.task classify --data.task caption",
        "train copy --model.family recurrent --model.family transformer",
        "train copy --=x",
        "train copy -x",
        "train copy --training.epoch 5",
        "train copy --bogus",
        "train copy --training.epochs",
        "train copy --data.path --resume",
        "train copy --model.encoder.bidirectional True",
        "train copy --model.decoder.no-gate true",
        "train copy --no-model.decoder.gate",
        "train copy --model.encoder.bidirectional=1",
        "train copy --resume=false",
        "train copy --resume --resume=false",
        "translate",
        "translate x y z",
        "translate x -o",
        "score",
        "translate x --ensemble",
        "average a",
        "average a b",
        "train copy --training.learning-rate 1,5",
        "train copy --model.size 1,024",
        "data number",
        "train copy --training.adam-betas",
        "translate x --verbose=yes",
        "translate x --no-header=False",
        "translate x --header=true",
        "train copy -- --training.epochs 3",
        "plot x text --bogus",
        "demo --output /etc",
        "demo --output /dev/null",
    ],
)
def test_mistakes_are_one_line(capsys, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = regard(capsys, *arguments.split())
    assert status in (1, 2)
    assert out == "" or arguments.startswith(("train copy --model.decoder.extra-vectors", "demo"))
    assert err.count("\n") == 1
    check_message(err)


@pytest.mark.parametrize(
    "sizes",
    [
        "--model.size 1048576",
        "--model.size 100000 --model.decoder.attention.size 1048576",
        "--model.decoder.memory-vectors 1048576 --model.size 65536",
        "--model.decoder.context-window 1000 --model.size 1048576 --model.decoder.key-layers 0 -1",
        "--model.family transformer --model.size 262144",
    ],
)
def test_a_model_beyond_the_machines_memory_is_refused_before_it_is_built(
    capsys, sizes, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    data = "--data.synthetic-size 100 --data.dev-size 0 --data.test-size 0"
    status, _, err = regard(capsys, "train", "copy", *data.split(), *sizes.split())
    assert status == 1
    assert err.startswith("regard train: the model has ")
    assert "GiB of memory, but this machine has " in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_texts_may_be_boolean_words_or_begin_with_a_hyphen(capsys):
    for words in (["--mean", "no"], ["--mean", "--", "--bogus"]):
        status, _, err = regard(capsys, "plot", "no-run", *words)
        assert (status, "no-run" in err) == (1, True)


@pytest.mark.parametrize("word", ["no-bidirectional", "bidirectional"])
def test_switches_have_a_negated_form(word):
    default = default_of("translate", "decoder", "recurrent")
    values, _ = options.read(Options, [f"--model.encoder.{word}"], default)
    assert values == {"experiment.model.encoder.bidirectional": word == "bidirectional"}


@pytest.mark.parametrize("name", ["x" * 6000, "a/" * 3000], ids=["name", "path"])
@pytest.mark.parametrize(
    "arguments",
    [
        "train LONG",
        "train LONG.tsv",
        "train LONG.yaml",
        "train copy --output LONG --data.synthetic-size 20",
        "train copy --data.path LONG",
        "train copy --data.tokenizer LONG",
        "train copy --model.family LONG",
        "train copy --LONG",
        "train --LONG",
        "translate LONG",
        "plot x text -o LONG",
        "evaluate LONG",
        "check LONG",
        "recipes LONG",
        "demo --output LONG",
        "LONG",
    ],
)
def test_long_names_are_shortened(capsys, tmp_path, monkeypatch, arguments, name):
    monkeypatch.chdir(tmp_path)
    status, _, err = regard(capsys, *arguments.replace("LONG", name).split())
    assert status in (1, 2)
    assert err.count("\n") == 1
    assert len(err) < 500
    assert not list(tmp_path.iterdir())


def test_the_file_after_an_ensemble_is_not_a_member(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    first, second, third, file = (str(tmp_path / name) for name in ("a", "b", "c", "pairs.tsv"))
    for words, ensemble in (
        ([first, "--ensemble", second, file], [second]),
        ([first, "--ensemble", second, third, file], [second, third]),
        ([first, "--ensemble", second, "--ensemble", third, file], [second, third]),
        ([first, file, "--ensemble", second, third], [second, third]),
        ([first, "--ensemble", "gone", file], ["gone"]),
    ):
        parsed = options.parse(ScoreOptions, words, "regard score")
        assert list(map(str, parsed.ensemble)) == ensemble
        assert (str(parsed.run), str(parsed.pairs)) == (first, file)


@pytest.mark.parametrize(
    "command", ["translate", "classify", "caption", "evaluate", "plot", "score"]
)
def test_examples_of_the_help_are_command_lines_of_the_command(command, capsys):
    module = main.module_of(command)
    with pytest.raises(SystemExit):
        main.run([command, "--help"])
    text = capsys.readouterr().out
    assert len(module.HELP_EXAMPLES) >= 2
    for line, _ in module.HELP_EXAMPLES:
        assert line in text
        program, name, *arguments = shlex.split(line)
        assert (program, name) == ("regard", command)
        options.parse(module.Options, arguments, f"regard {command}")


@pytest.mark.parametrize("command", ["translate", "classify", "evaluate", "check"])
def test_help_names_the_opposite_of_a_recognised_switch(command, capsys):
    with pytest.raises(SystemExit):
        main.run([command, "--help"])
    assert "  --[no-]header  " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--header"], (True, None)),
        (["--no-header", "x"], (False, "x")),
        (["--no-header", "False"], (False, "False")),
        (["--header", "False"], (False, None)),
        (["--header=None", "--images", "x"], (None, None)),
        (["--images", "x", "--", "--no-header"], (None, "--no-header")),
    ],
)
def test_switches_that_are_recognised_by_default(arguments, expected):
    parsed = options.parse(CheckOptions, arguments, "regard check")
    assert (parsed.header, parsed.data and str(parsed.data)) == expected


@pytest.mark.parametrize("words", [[""], ["--task", "translate", ""], ["", "--min-count", "2"]])
def test_an_empty_argument_is_no_folder(words):
    with pytest.raises(UsageError, match="an argument is empty"):
        run(words)


@pytest.mark.parametrize(
    "words",
    [
        ["a", "b", "-o", "c"],
        ["a", "-o", "c", "b"],
        ["--output=c", "a", "b"],
        ["-oc", "a", "--", "b"],
        ["-o=c", "a", "b"],
    ],
)
def test_arguments_may_stand_before_between_and_after_options(words):
    parsed = options.parse(AverageOptions, words, "regard average")
    assert parsed == AverageOptions(runs=(Path("a"), Path("b")), output=Path("c"))


def test_values_may_be_negative_numbers_but_no_options():
    words = ["run", "-1", "--title", "-2.5", "--target=--x"]
    parsed = options.parse(PlotOptions, words, "regard plot")
    assert (parsed.text, parsed.title, parsed.target) == ("-1", "-2.5", "--x")
    with pytest.raises(UsageError, match="--title has no value: expected text or None"):
        options.parse(PlotOptions, ["run", "text", "--title", "--x"], "regard plot")
