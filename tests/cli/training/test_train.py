"""`regard train`: which recipe, which file, which folder."""

import io
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import regard as regard_package
from regard import recipes
from regard.cli import main, progress
from regard.cli.training.train import folder_of, parse
from regard.corpora import sources
from regard.errors import UserError
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.runtime.signals import TerminatedError
from regard.training.log import EndLine
from regard.training.schedule import Progress
from tests.messages import check_message
from tests.small_runs import small

SMALL = ("--model.size", "8")


def pairs(path, letter="v"):
    """A file of forty pairs of one word each."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"w{number}\t{letter}{number}\n" for number in range(40)))
    return path


def regard(capsys, *arguments):
    """Status, output and errors of `regard train`."""
    status = main.run(["train", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


class Interrupting(progress.TrainingView):
    """A person who presses Ctrl-C after the first update."""

    def on_update(self, progress):
        super().on_update(progress)
        if progress.update == 1:
            signal.raise_signal(signal.SIGINT)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of a person's own, which is the current one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_run_is_resumed_on_the_file_that_is_named(capsys, here, monkeypatch):
    pairs(here / "mine.tsv")
    assert regard(capsys, "mine.tsv", *SMALL, "--training.epochs", 1)[0] == 0
    run = here / "runs" / "mine"
    before = contents(run)
    pairs(here / "odd.tsv", "x")
    status, _, err = regard(capsys, "odd.tsv", "--output", run, "--resume", "--training.epochs", 2)
    assert status == 1
    assert "training data" in err
    assert contents(run) == before
    inner = here / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    status, out, err = regard(
        capsys, "../mine.tsv", "--output", "../runs/mine", "--resume", "--training.epochs", 2
    )
    assert (status, err) == (0, "")
    assert "epoch   2" in out


@pytest.mark.parametrize(
    "change",
    [
        "data",
        ["--training.learning-rate", "0.5"],
        ["--training.seed=7"],
    ],
)
def test_a_run_that_cannot_be_resumed_names_the_command_that_begins_with_it(capsys, here, change):
    pairs(here / "mine.tsv")
    first = ["mine.tsv", *SMALL, "--training.epochs", 1, "-o", "old run"]
    assert regard(capsys, *first)[0] == 0
    if change == "data":
        pairs(here / "mine.tsv", "x")
    changed = [*first, *(change if isinstance(change, list) else [])]
    status, _, err = regard(capsys, *changed, "--resume")
    assert status == 1
    command = shlex.split(err[err.index("regard train mine.tsv") :])
    assert command[2:] == [
        *(word for word in map(str, changed) if word not in ("-o", "old run")),
        *("--init-from", "old run", "-o", "NEW"),
    ]
    assert regard(capsys, *command[2:])[0] == 0
    assert RunFolder(here / "NEW").model.exists()


def test_a_complete_run_that_is_resumed_names_the_option_that_trains_it_longer(
    capsys, here, monkeypatch
):
    pairs(here / "mine.tsv")
    message = "runs/mine was complete already, after 2 updates, so nothing was trained; "
    options = ("--training.updates", 2, "--training.validate-every", 1)
    assert message not in regard(capsys, "mine.tsv", *SMALL, *options)[1]
    status, out, err = regard(capsys, "mine.tsv", "--resume")
    assert (status, err) == (0, "")
    assert f"{message}to train it longer: --training.updates above 2\n" in out
    assert ", best dev exact match 0" in out
    epochs = ("--training.updates", "None", "--training.epochs", 1)
    out = regard(capsys, "mine.tsv", "--resume", *epochs)[1]
    assert f"{message}to train it longer: --training.epochs above 1\n" in out
    end = EndLine(update=2, epoch=2, reason="patience", score=0.0, seconds=1.0)
    monkeypatch.setattr("regard.pipeline.train.train", lambda *_, **__: end)
    out = regard(capsys, "mine.tsv", "--resume", "--training.patience", 3)[1]
    assert f"{message}to train it longer: --training.patience above 3, or None\n" in out


@pytest.mark.parametrize("name", ["test.tsv", "dev.tsv"])
def test_a_run_on_a_file_with_a_run_files_name_is_resumed(capsys, here, name):
    """Its data is the file it was trained on, not the pairs held out in the run folder."""
    pairs(here / name)
    assert regard(capsys, name, "--output", "runs/mine", *SMALL, "--training.epochs", 1)[0] == 0
    assert RunFolder(here / "runs" / "mine").experiment().data.path == Path(name)
    again = ("--training.epochs", 2, "--resume")
    assert regard(capsys, name, "--output", "runs/mine", *again)[::2] == (0, "")


def test_options_without_effect_are_reported(capsys, here):
    pairs(here / "mine.tsv")
    plain = ["--model.decoder.wiring", "plain", "--model.decoder.attention.score", "dot"]
    status, out, _ = regard(capsys, "mine.tsv", *SMALL, *plain, "--training.epochs", 1)
    assert (status, "\nwarning: model.decoder.attention has no effect: " in out) == (0, True)


def test_options_without_effect_of_a_resumed_run_are_those_of_its_command(capsys, here):
    pairs(here / "mine.tsv")
    start = ("mine.tsv", *SMALL, "--training.epochs", 1)
    assert regard(capsys, *start, "--output", "first")[0] == 0
    options = ("--data.tokenizers-path", "first", "--output", "second")
    assert "has no effect" not in regard(capsys, *start, *options)[1]
    longer = ("mine.tsv", "--output", "second", "--resume", "--training.updates")
    status, out, _ = regard(capsys, *longer, 3)
    assert (status, "has no effect" in out) == (0, False)
    _, out, _ = regard(capsys, *longer, 4, "--training.epochs=2")
    assert out.count("has no effect") == 1
    assert "training.epochs has no effect: training.updates sets the length" in out


def test_a_run_is_not_resumed_as_another_recipe(capsys, here):
    pairs(here / "mine.tsv")
    regard(capsys, "mine.tsv", *SMALL, "--training.epochs", 1)
    status, _, err = regard(capsys, "numbers", "--output", "runs/mine", "--resume")
    assert status == 1
    assert "is a run of mine, not of numbers" in err
    train(small(epochs=1), here / "runs" / "small")
    status, _, err = regard(capsys, "mine.tsv", "--output", "runs/small", "--resume")
    assert status == 1
    assert "synthetic data (copy), not on mine.tsv" in err


@pytest.mark.parametrize("flag", ["--model.family", "--model.encoder.kind"])
def test_a_run_is_not_resumed_with_another_kind(capsys, here, flag):
    pairs(here / "mine.tsv")
    regard(capsys, "mine.tsv", *SMALL, "--training.epochs", 1)
    status, _, err = regard(capsys, "mine.tsv", "--resume", flag, "transformer")
    assert status == 1
    check_message(err)


@pytest.mark.parametrize(
    ("name", "was", "now", "message"),
    [
        ("training.adam-betas", "0.9 0.99", "0.8 0.9", r"\(0.9, 0.99\) and is \(0.8, 0.9\)"),
        ("training.freeze", "encoder", "decoder", r"\('encoder',\) and is \('decoder',\)"),
        ("model.decoder.key-layers", "0", "-1", r"\(0,\) and is \(-1,\)"),
    ],
)
def test_a_run_is_not_resumed_with_another_list(capsys, here, name, was, now, message):
    pairs(here / "mine.tsv")
    regard(capsys, "mine.tsv", *SMALL, "--training.epochs", 1, f"--{name}", *was.split())
    status, _, err = regard(
        capsys, "mine.tsv", "--resume", "--training.epochs", 2, f"--{name}", *now.split()
    )
    assert status == 1
    assert re.search(rf"{name.replace('-', '_')} was {message} now. Put it back", err), err


def test_a_run_of_another_name_is_resumed_by_its_recipe(capsys, here):
    path = here / "quick.yaml"
    path.write_text(recipes.dump(small(epochs=1)).replace("name: small\n", "name: quick\n"))
    assert regard(capsys, path, "--name", "other")[0] == 0
    again = ("--resume", "--training.epochs", 2)
    assert regard(capsys, path, "--output", "runs/other", *again)[0] == 1
    assert regard(capsys, path, "--name", "other", *again)[0] == 0


@pytest.mark.parametrize(
    ("name", "folder"), [(".hidden.tsv", "hidden"), ("a.b.tsv", "a"), ("...", "experiment")]
)
def test_a_run_has_a_folder_of_its_own(capsys, here, name, folder):
    pairs(here / name)
    assert regard(capsys, name, *SMALL, "--training.epochs", 1)[0] == 0
    assert [path.name for path in (here / "runs").iterdir()] == [folder]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("afile", "afile: there is a file of that name"),
        ("afile/x", "Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_made_is_named(capsys, here, output, why):
    pairs(here / "mine.tsv")
    (here / "afile").write_text("mine\n")
    before = contents(here)
    status, _, err = regard(capsys, "mine.tsv", *SMALL, "--output", output)
    assert (status, err.count("\n")) == (1, 1)
    assert why in err
    status = main.run(["data", "numbers", "-o", f"{output}/x.tsv"])
    assert (status, why in capsys.readouterr().err) == (1, True)
    assert contents(here) == before


def test_diverging_weights_are_one_line_and_leave_no_model(capsys, here):
    data = pairs(here / "mine.tsv")
    wild = ("--training.learning-rate", "1e38", "--training.clip", "None")
    status, _, err = regard(capsys, data, *SMALL, *wild, "--training.log-every", 1000)
    assert (status, err.count("\n")) == (1, 1)
    assert "Lower the learning rate" in err
    assert not RunFolder(here / "runs" / "mine").model.exists()


def test_the_cursor_is_restored_after_an_error(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=80)
    )

    def diverge():
        with progress.TrainingView(lines=False) as view:
            view.on_update(Progress(1, 3))
            assert "\x1b[?25l" in screen.getvalue()
            raise UserError("the loss is nan")

    with pytest.raises(UserError):
        diverge()
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l")


def test_the_hint_after_an_interruption_can_be_pasted(capsys, here, monkeypatch):
    data = pairs(here / "my pairs.tsv")
    monkeypatch.setattr("regard.cli.training.train.TrainingView", Interrupting)
    options = (data, "--output", "a run", *SMALL, "--training.epochs", 2, "--training.log-every", 1)
    status, out, _ = regard(capsys, *options)
    assert status == 130
    _, _, command = out.rpartition("resume with: ")
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert main.run(shlex.split(command)[1:]) == 0


def test_training_continues_with_a_closed_output(here):
    data = pairs(here / "mine.tsv")
    command = [sys.executable, "-m", "regard.cli.main", "train", data, *SMALL]
    training = subprocess.Popen(
        [*command, "--training.epochs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    training.stdout.readline()
    training.stdout.close()
    assert training.stderr.read().count("continuing without output") == 1
    assert training.wait() == 0
    assert '"finished"' in RunFolder(here / "runs" / "mine").log.read_text()


def test_a_curve_that_cannot_be_drawn_is_reported(capsys, here):
    data = pairs(here / "mine.tsv")
    assert regard(capsys, data, *SMALL, "--training.epochs", 1)[0] == 0
    curve = here / "runs" / "mine" / "curve.png"
    curve.unlink()
    (curve / "in the way").mkdir(parents=True)
    status, out, err = regard(capsys, data, "--resume", "--training.epochs", 2)
    assert (status, err.count("\n")) == (1, 1)
    assert "curve.png" in err
    assert "try it" in out


def test_a_log_without_points_gives_no_curve_and_no_error(capsys, here, monkeypatch):
    monkeypatch.setattr("regard.cli.training.train.TrainingView", Interrupting)
    data = pairs(here / "mine.tsv")
    held_out = ("--data.dev-size", 0, "--data.test-size", 0, "--data.batch-sentences", 4)
    endless = ("--training.patience", "None", "--training.average", "None")
    status, _, err = regard(capsys, data, *SMALL, *held_out, *endless)
    assert (status, err) == (130, "")
    assert not (here / "runs" / "mine" / "curve.png").exists()


SMALL_TRANSFORMER = (
    "--model.size",
    "8",
    "--model.encoder.heads",
    "2",
    "--model.decoder.heads",
    "2",
)


@pytest.mark.parametrize(
    ("recipe", "there", "not_there"),
    [
        (("multi30k-transformer",), "--model.encoder.feed-forward", "--model.encoder.cell"),
        (("multi30k-luong",), "--model.decoder.cell", "--model.decoder.feed-forward"),
        (("multi30k-luong", "--model.family", "transformer"), "decoder.heads", "decoder.cell"),
        (("multi30k-luong", "--model.family=transformer"), "decoder.heads", "decoder.cell"),
        (
            ("multi30k-luong", "--model.encoder.kind", "transformer"),
            "encoder.heads",
            "encoder.cell",
        ),
        (
            ("multi30k-transformer", "--model.decoder.kind=recurrent"),
            "decoder.cell",
            "decoder.heads",
        ),
        (("trec", "--model.head.kind", "mean"), "model.head.output", "model.head.query"),
        (("captions", "--model.family", "transformer"), "decoder.heads", "decoder.gate"),
    ],
)
def test_help_has_the_fields_of_the_kinds(capsys, here, recipe, there, not_there):
    with pytest.raises(SystemExit):
        main.run(["train", *recipe, "--help-all"])
    out = capsys.readouterr().out
    assert there in out
    assert not_there not in out


def test_the_family_is_short_for_the_kinds(capsys, here):
    pairs(here / "mine.tsv")
    transformer = ("--model.family", "transformer", *SMALL_TRANSFORMER)
    for epochs, resume in ((1, ()), (2, ("--resume",))):
        flags = (*transformer, "--training.epochs", epochs, *resume)
        assert regard(capsys, "mine.tsv", *flags)[::2] == (0, "")
    assert regard(capsys, "mine.tsv", "--resume", "--training.epochs", 3)[::2] == (0, "")
    model = RunFolder(here / "runs" / "mine").experiment().model
    assert (model.encoder.kind, model.decoder.kind) == ("transformer", "transformer")


def test_a_kind_of_its_own_goes_before_the_family(here):
    options = ["copy", "--model.family", "transformer", "--model.encoder.kind", "recurrent"]
    model = parse(options).experiment.model
    assert (model.encoder.kind, model.decoder.kind) == ("recurrent", "transformer")


MIXED = [
    ("transformer", "recurrent", ("--model.decoder.wiring", "bahdanau")),
    ("transformer", "recurrent", ("--model.decoder.wiring", "plain")),
    ("recurrent", "transformer", ()),
    ("bag_of_words", "transformer", ()),
]


@pytest.mark.parametrize(("encoder", "decoder", "options"), MIXED)
def test_any_encoder_trains_with_any_decoder(capsys, here, encoder, decoder, options):
    pairs(here / "mine.tsv")
    kinds = ("--model.encoder.kind", encoder, "--model.decoder.kind", decoder, *options)
    updates = ("--training.updates", 3, "--training.log-every", 1, "--model.size", 8)
    words = ("--data.tokenizer", "words")
    assert regard(capsys, "mine.tsv", *kinds, *updates, *words)[::2] == (0, "")
    translator = regard_package.load(here / "runs" / "mine")
    outputs = translator.translate(["a b", "c"])
    widths = [
        {block.weights.shape[-1] for block in output.trace.attention if block.kind == "cross"}
        for output in outputs
    ]
    assert widths == ([set(), set()] if "plain" in options else [{3}, {2}])  # words and the end


def test_images_train_with_a_transformer(capsys, here):
    drawn = ("--data.synthetic-size", 40, "--data.dev-size", 10, "--data.test-size", 10)
    model = ("--model.decoder.kind", "transformer", "--model.size", 8, "--data.image-size", 32)
    some = ("--training.updates", 3, "--model.encoder.channels", 4, 6, "--search.max-length", 6)
    status, out, err = regard(capsys, "shapes-caption", *drawn, *model, *some)
    assert (status, err) == (0, "")
    assert "so the recipe's other fields of model.decoder are not used: wiring, embed" in out
    captioner = regard_package.load(here / "runs" / "shapes-caption")
    (block,) = captioner.caption("small red circle centre").trace.attention[:1]
    assert block.kind == "image"


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_takes_a_size(name):
    assert parse([name, "--model.size", "128"]).experiment.model.size == 128


def test_a_run_is_named_after_the_data_file_behind_the_recipe(capsys, here):
    pairs(here / "mine.tsv")
    assert regard(capsys, "g2p", "mine.tsv", *SMALL, "--training.epochs", 1)[::2] == (0, "")
    experiment = RunFolder(here / "runs" / "mine").experiment()
    assert (str(experiment.data.path), experiment.name) == ("mine.tsv", "g2p")
    status, _, err = regard(capsys, "letters", "mine.tsv", "--resume")
    assert status == 1
    check_message(err)
    status, _, err = regard(capsys, "g2p", "mine.tsv", "--resume", "--training.epochs", 2)
    assert (status, err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        (["letters", "mine.tsv"], "runs/mine"),
        (["letters", "data/mine.tsv.gz", "--name", "other"], "runs/other"),
        (["letters", "mine.tsv", "-o", "there"], "there"),
        (["letters", "--data.path", "mine.tsv"], "runs/letters"),
        (["labels", "folder/"], "runs/folder"),
        (["labels", "."], "runs/labels"),
        (["mine.tsv"], "runs/mine"),
        (["numbers"], "runs/numbers"),
    ],
)
def test_the_folder_of_a_run(here, arguments, folder):
    pairs(here / "mine.tsv")
    (here / "folder").mkdir()
    assert folder_of(parse(arguments)) == Path(folder)


def test_a_recipe_name_has_priority_over_a_folder(capsys, here):
    (here / "copy").mkdir()
    assert parse(["copy"]).experiment.data.synthetic == "copy"


def test_a_file_of_which_few_lines_can_be_read_is_not_trained_on(capsys, here):
    with pairs(here / "mine.tsv").open("a") as file:
        file.writelines(f"line {number}\n" for number in range(41))
    status, _, err = regard(capsys, "letters", "mine.tsv", *SMALL)
    assert (status, err.count("\n")) == (1, 1)
    check_message(err)
    few = ("--training.updates", 1, "--data.checks", "warn")
    status, out, _ = regard(capsys, "letters", "mine.tsv", *SMALL, *few)
    assert status == 0
    assert "warning: only 40 of 81 lines can be read" in out


def test_columns_that_are_both_set_are_not_compared_with_the_task(here):
    rows = [f"{number}.jpg\tthing {number}\tdessin {number}\n" for number in range(30)]
    (here / "three.tsv").write_text("".join(rows))
    with pytest.raises(UserError, match="looks like captions"):
        parse(["letters", "three.tsv", "--data.target-column", "3"])
    columns = ("--data.source-column", "1", "--data.target-column", "3")
    data = parse(["letters", "three.tsv", *columns]).experiment.data
    assert (data.source_column, data.target_column) == ("1", "3")


def test_the_kind_of_source_of_a_number_is_recognised(here):
    rows = [f"{number} lemons and a melon\t{number / 2}\n" for number in range(30)]
    (here / "texts.tsv").write_text("".join(rows))
    (here / "series.tsv").write_text(
        "".join(row.replace(" lemons and a melon", " 3") for row in rows)
    )
    assert parse(["texts.tsv"]).experiment.data.source == "text"
    assert parse(["values", "texts.tsv"]).experiment.data.source == "text"
    assert parse(["values", "series.tsv"]).experiment.data.source == "series"
    (here / "items.tsv").write_text(
        "".join(f"cola {row}".replace(" lemons and a melon", "; cola 2") for row in rows)
    )
    items = parse(["items.tsv"]).experiment
    assert (items.data.source, items.data.synthetic) == ("items", None)
    assert items.model.encoder.kind == "bag_of_words"


@pytest.mark.parametrize("wiring", ["luong", "plain"])
def test_the_last_line_names_commands_that_apply_to_the_model(capsys, here, wiring):
    data = pairs(here / "mine.tsv")
    options = (*SMALL, "--training.epochs", 1, "--model.decoder.wiring", wiring)
    status, out, _ = regard(capsys, data, *options)
    assert status == 0
    assert 'try it: regard translate runs/mine    regard plot runs/mine "some text"\n' in out
    assert main.run(["plot", "runs/mine", "w1 w2"]) == 0


@pytest.mark.parametrize(
    ("wiring", "figure"), [("bahdanau", "attention.png"), ("plain", "--feature-maps -o maps.png")]
)
def test_the_last_line_of_a_captioner_names_a_figure_of_it(capsys, here, wiring, figure):
    plain = ("--model.decoder.no-gate", "--model.decoder.attention.doubly-stochastic", 0)
    size = ("--model.size", 8, "--data.synthetic-size", 400, "--training.updates", 1)
    options = ("--model.decoder.wiring", wiring, *plain, *size, "-o", "runs/shapes")
    status, out, _ = regard(capsys, "shapes-caption", *options)
    assert status == 0
    assert "try it: regard caption runs/shapes IMAGE    regard plot runs/shapes IMAGE" in out
    assert figure in out


def test_encoded_pairs_of_a_large_file_are_cached_and_reported_once(capsys, here, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(here / "cache"))
    monkeypatch.setattr(sources, "LARGE", 0)
    path = pairs(here / "data" / "large.tsv")
    options = (path, *SMALL, "--training.epochs", "1")
    _, first, _ = regard(capsys, *options)
    _, second, _ = regard(capsys, *options, "--output", "again")
    assert f"cached the encoded pairs in {here}/cache (" in first
    assert "cached the encoded pairs" not in second
    _, resumed, errors = regard(capsys, *options[:-1], "2", "--resume")
    assert "cached the encoded pairs" not in resumed
    assert errors == ""


@pytest.mark.parametrize("unwritable", ["file/cache", "file"])
def test_a_large_file_is_trained_on_without_a_writable_cache(capsys, here, monkeypatch, unwritable):
    (here / "file").write_text("in the way")
    monkeypatch.setenv("REGARD_CACHE", str(here / unwritable))
    monkeypatch.setattr(sources, "LARGE", 0)
    path = pairs(here / "data" / "large.tsv")
    status, output, _ = regard(capsys, path, *SMALL, "--training.epochs", "1")
    assert status == 0
    assert "kept" not in output


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [(KeyboardInterrupt(), 130, "interrupted"), (TerminatedError(143), 143, "terminated")],
)
def test_a_stopped_preparation_says_what_is_kept(capsys, here, monkeypatch, error, status, word):
    def stop(*_, **__):
        raise error

    monkeypatch.setenv("REGARD_CACHE", str(here / "cache"))
    monkeypatch.setattr(sources, "LARGE", 0)
    monkeypatch.setattr("regard.tasks.translation.preparation._trained", stop)
    path = pairs(here / "data" / "large.tsv")
    note = f"repeats it; {here}/cache has the results of complete passes for the next run\n"
    result = regard(capsys, path, *SMALL, "--training.epochs", "1")
    assert result[0] == status
    assert result[2].startswith(f"regard train: {word}; this pass over the data is not complete, ")
    assert result[2].endswith(note)


def test_preparation_shows_progress_and_clears_it(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=80)
    )
    with progress.PreparationView() as view:
        view.stop()
        assert screen.getvalue() == ""
        view("reading", 8192, None)
        view("encoding", 8192, 10_000)
        view("encoding", 9000, 10_000)
        view.stop()
        shown = screen.getvalue()
        assert "8192/?" in shown
        assert "9000/10000" in shown
        assert shown.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")
    assert screen.getvalue() == shown


def test_initialisation_reports_the_copied_weights(capsys, here):
    pairs(here / "mine.tsv")
    options = ("mine.tsv", *SMALL, "--training.epochs", 1, "--data.tokenizer", "words")
    assert regard(capsys, *options, "--output", "first")[0] == 0
    pairs(here / "mine.tsv", "x")
    start = (*options, "--output", "second", "--init-from", "first")
    status, out, err = regard(capsys, *start, "--freeze", "encoder", "decoder.attention")
    assert (status, err) == (0, "")
    assert "initialised from first: " in out
    assert "source words; 0 of " in out
    assert " target words; newly initialised: none" in out
    assert " frozen); " in out
    training = RunFolder(here / "second").experiment().training
    assert training.initial_run == Path("first")
    assert training.freeze == ("encoder", "decoder.attention")
    shutil.rmtree("first")
    longer = ("--resume", "--training.epochs", 2)
    status, out, err = regard(capsys, "mine.tsv", "--output", "second", *longer)
    assert (status, err) == (0, "")
    assert "initialised from" not in out
    for flags, words in (
        (("--init-from", "first"), "first is not a run"),
        (("--freeze", "reader"), "training.freeze is reader, but the model has no such part"),
    ):
        status, _, err = regard(capsys, *options, "--output", "third", *flags)
        assert status == 1
        assert words in err
        assert err.count("\n") == 1
        assert not Path("third").exists()


def test_processes_are_not_started_in_a_folder_that_cannot_be_used(capsys, here, monkeypatch):
    def launch(*_):
        raise AssertionError

    monkeypatch.setattr("regard.pipeline.launch.launch", launch)
    (here / "run").mkdir()
    (here / "run" / "model.safetensors").write_bytes(b"")
    status, output, errors = regard(capsys, "copy", "-o", here / "run", "--processes", "2")
    assert (status, output) == (1, "")
    assert "holds a run already" in errors


def test_the_first_process_alone_prints_lines_about_the_data(capsys, here, monkeypatch):
    monkeypatch.setattr("regard.pipeline.launch.launch", lambda *_: 0)
    path = pairs(here / "pairs.tsv")
    assert regard(capsys, path, *SMALL, "--processes", "2") == (0, "", "")


def test_messages_name_the_options_that_train_on_four_pairs(capsys, here):
    path = here / "four.tsv"
    path.write_text("the cat\tle chat\nthe dog\tle chien\na cat\tun chat\na dog\tun chien\n")
    command = ["words", path, "--data.target-tokenizer", "characters", *SMALL]
    command += ["--training.updates", "2"]
    for options in (
        ["--data.no-shared-vocabulary"],
        ["--model.tied output"],
        ["--training.patience None --training.average None"],
    ):
        status, _, err = regard(capsys, *command)
        assert (status, err.count("\n")) == (1, 1)
        assert all(option in err for option in options)
        command += [word for option in options for word in option.split()]
    status, out, _ = regard(capsys, *command)
    assert (status, "finished after 2 updates" in out) == (0, True)
