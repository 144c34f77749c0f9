"""The commands as a person meets them: what they print, what they write, how they refuse."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import recipes
from regard.cli import main
from regard.cli.progress import TrainingView
from regard.cli.training import check
from regard.pipeline.train import train
from regard.recipes.published import PUBLISHED
from regard.runs.folder import RunFolder
from regard.search import forced, greedy
from regard.storage.files import UnwritableError
from regard.tasks.translation.model import TranslationModel
from regard.training.log import DevLine, Example, TrainLine, Validation
from regard.training.schedule import Progress
from tests import configs, needs
from tests.messages import check_message
from tests.small_runs import small

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def regard(capsys, *arguments):
    """Status, output and errors of a command."""
    status = main.run([str(each) for each in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("command", main.COMMANDS)
def test_every_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as stopped:
        main.run([command, "--help"])
    assert stopped.value.code == 0
    assert f"regard {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "allocate",
    [
        lambda: torch.empty(1 << 55),
        lambda: torch.empty(1 << 62, 4),
        lambda: np.empty(1 << 58),
    ],
)
def test_too_little_memory_is_one_line(capsys, monkeypatch, allocate):
    monkeypatch.setattr("regard.cli.recipes.run", lambda _: allocate())
    status, out, err = regard(capsys, "recipes")
    assert (status, out) == (1, "")
    assert err == f"regard recipes: {main.OUT_OF_MEMORY}\n"


def test_other_runtime_errors_are_not_reported_as_lack_of_memory(monkeypatch):
    def fail(_):
        raise RuntimeError("index 3 is out of bounds")

    monkeypatch.setattr("regard.cli.recipes.run", fail)
    with pytest.raises(RuntimeError, match="out of bounds"):
        main.run(["recipes"])


def test_names_of_options_may_have_underscores(monkeypatch):
    typed, received = ["a_b", "--data.source_column=c_d", "--x_y", "e_f", "--", "--g_h"], []
    monkeypatch.setattr(check, "run", received.extend)
    main.run(["check", *typed])
    assert received == ["a_b", "--data.source-column=c_d", "--x-y", "e_f", "--", "--g_h"]


def test_translate_prints_one_line_per_input_line(capsys, run, tmp_path):
    text, output = tmp_path / "in.txt", tmp_path / "out.txt"
    text.write_bytes(b"\xef\xbb\xbfa b c\r\n\r\n   \nz\n\xff\nlast line without an end")
    status, _, err = regard(capsys, "translate", run, text, "-o", output)
    assert status == 0
    lines = output.read_text(encoding="utf8").split("\n")
    assert len(lines) == 7
    assert lines[-1] == ""
    assert lines[1] == lines[2] == ""
    assert "line 5" in err


def test_translate_writes_links_traces_and_n_best_lists(capsys, run, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text("a b\n\nc\n")
    links, traces = tmp_path / "links.txt", tmp_path / "traces.jsonl"
    regard(capsys, "translate", run, text, "--alignments", links, "--trace", traces)
    assert len(links.read_text().split("\n")) == 4
    assert links.read_text().split("\n")[1] == ""
    saved = [json.loads(line) for line in traces.read_text().splitlines()]
    assert [bool(each) for each in saved] == [True, False, True]
    _, out, _ = regard(capsys, "translate", run, text, "--nbest", 2)
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "2"]
    _, out, error = regard(capsys, "translate", run, text, "--verbose")
    assert "accelerated: decoder.attention.attention.score (Additive)" in error
    assert "[Step 0] " in out
    assert ", attn: [" in out
    assert "Generated: [" in out


def test_evaluate_names_the_columns_of_a_table_of_pairs(capsys, run, tmp_path):
    table = tmp_path / "table.tsv"
    table.write_text("1\ta b\ta b\n2\tb c\tb c\n")
    columns = ("--source-column", 2, "--target-column", 3)
    status, out, _ = regard(capsys, "evaluate", run, table, *columns)
    assert status == 0
    line = "columns: 2 -> source (--source-column), 3 -> target (--target-column)\n"
    assert out.startswith(line)
    table.write_text("a b\ta b\n")
    assert "-> source" not in regard(capsys, "evaluate", run, table)[1]


def test_links_of_character_models_connect_characters(capsys, tmp_path):
    pairs = tmp_path / "words.tsv"
    pairs.write_text("".join(f"{a}{b}c\t{a} {b} k\n" for a in "abc" for b in "abc"))
    asked = ["--data.path", pairs, "--data.dev-size", 2, "--data.test-size", 2]
    asked += ["--model.size", 8, "--model.encoder.embedding", 8, "--model.decoder.embedding", 8]
    run = tmp_path / "run"
    regard(capsys, "train", "g2p", *asked, "--training.epochs", 1, "-o", run)
    text, links, traces = (tmp_path / name for name in ("in", "links", "traces"))
    text.write_text("abc\ncba\n")
    looks = ["--alignments", links, "--trace", traces, "--min-length", 3]
    status, _, _ = regard(capsys, "translate", run, text, *looks)
    assert status == 0
    for line, page in zip(links.read_text().splitlines(), traces.open(), strict=True):
        saved = json.loads(page)
        (cross,) = saved["attention"]
        sounds = range(len(saved["target"]["pieces"]) - 1)
        most = np.array(cross["weights"])[0, 0].argmax(axis=1)
        expected = sorted((int(most[sound]), sound) for sound in sounds)
        assert line == " ".join(f"{letter}-{sound}" for letter, sound in expected if letter < 3)
    regard(capsys, "translate", run, text, *looks, "--links", "words")
    assert {link[0] for line in links.read_text().splitlines() for link in line.split()} <= {"0"}


def test_search_options_default_to_the_runs_recipe(capsys, run, tmp_path, monkeypatch):
    copy = shutil.copytree(run, tmp_path / "copy")
    config = copy / "config.yaml"
    values = config.read_text().replace("beam: 1", "beam: 3")
    config.write_text(values.replace("early_stopping: true", "early_stopping: false"))
    text, asked = tmp_path / "in.txt", []
    text.write_text("a b\n")

    def noted(self, texts, *, search, **how):
        asked.append(search)
        return translate(self, texts, search=search, **how)

    translate = TranslationModel.translate
    monkeypatch.setattr(TranslationModel, "translate", noted)
    regard(capsys, "translate", copy, text)
    regard(capsys, "translate", copy, text, "--early-stopping", "--unknown-replacement")
    regard(capsys, "evaluate", "--beam", 2, copy)
    flags = [(each.beam, each.early_stopping, each.unknown_replacement) for each in asked]
    assert flags == [(3, False, False), (3, True, True), (2, False, False)]
    assert all(each.max_ratio is not None for each in asked)


def test_lines_longer_than_any_in_training_are_named(capsys, run, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text("a b\n" + "a " * 201 + "\n\n" + "b " * 300 + "\n")
    status, out, err = regard(capsys, "translate", run, text, "--max-length", 5)
    assert (status, out.count("\n")) == (0, 4)
    assert err.startswith("2 lines of more than 200 tokens (lines 2, 4;")


def test_evaluate_prints_signatures_and_examples(capsys, run):
    status, out, _ = regard(capsys, "evaluate", run, "--examples", 2, "--beam", 2)
    assert status == 0
    assert "BLEU" in out
    assert "version:" in out
    for word in ("Source:", "Predicted:", "Actual:"):
        assert out.count(word) == 2
    assert (run / "results.json").exists()


def test_bleu_of_short_references_is_only_in_the_results(capsys, run, tmp_path):
    data = tmp_path / "words.tsv"
    data.write_text("a b c\ta b c\nb\tb\n")
    _, out, _ = regard(capsys, "evaluate", run, data)
    assert not any(line.startswith("BLEU  ") for line in out.splitlines())
    assert "BLEU is only in results.json: it counts n-grams of 4 words" in out
    (entry,) = json.loads((run / "results.json").read_text())[str(data)]
    assert entry["scores"][0]["name"] == "BLEU"
    _, out, _ = regard(capsys, "evaluate", run, data, "--tokenized")
    assert any(line.startswith("BLEU  ") for line in out.splitlines())


def test_scores_are_printed_if_they_cannot_be_saved(capsys, caplog, run, monkeypatch):
    number = errno.EROFS

    def refuse(self, path, text):
        error = UnwritableError(f"cannot write {path}: {os.strerror(number)}")
        raise error from OSError(number, os.strerror(number))

    monkeypatch.setattr(RunFolder, "write", refuse)
    copy = shutil.copytree(run, run.with_name("copy"))
    for folder in (run, copy):
        (folder / "results.json").unlink(missing_ok=True)
    status, out, err = regard(capsys, "evaluate", run)
    assert (status, err) == (0, "")
    assert "BLEU" in out
    warning = "cannot write {}: Read-only file system; the scores are not saved"
    assert caplog.messages == [warning.format(run / "results.json")]
    status, out, err = regard(capsys, "compare", run, copy)
    assert (status, err) == (0, "")
    assert "exact match" in out
    assert caplog.messages[1:] == [warning.format(path / "results.json") for path in (run, copy)]
    number = errno.ENOSPC
    status, out, err = regard(capsys, "evaluate", run)
    assert status == 1
    assert "BLEU" in out
    assert "results.json: No space left on device" in err


def test_evaluate_checks_options_before_it_translates(capsys, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    for broken in (b"{", b"[]", b'{"test.tsv": 3}', b"\xff"):
        (copy / "results.json").write_bytes(broken)
        status, out, err = regard(capsys, "evaluate", copy)
        assert (status, out) == (1, "")
        assert "results.json" in err
        assert err.count("\n") == 1
        assert (copy / "results.json").read_bytes() == broken


def as_person(*arguments, **how):
    """A command in a process of its own."""
    source = Path(main.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(source), **how.pop("environment", {})}
    command = [sys.executable, "-m", "regard.cli.main", *arguments]
    return subprocess.run(
        command, env=environment, stderr=subprocess.PIPE, timeout=120, check=False, **how
    )


def one_line(done):
    error = done.stderr.decode()
    return done.returncode == 1 and error.startswith("regard ") and error.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = as_person("recipes", stdout=full)
    assert one_line(done), done.stderr
    assert b"no space left" in done.stderr


def test_characters_that_cannot_be_encoded_are_one_line():
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = as_person("recipes", "toy", stdout=subprocess.DEVNULL, environment=ascii_only)
    assert one_line(done), done.stderr
    assert b"set PYTHONIOENCODING=utf8" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="arguments are bytes on POSIX only")
def test_an_argument_that_is_not_utf8_is_one_line(run):
    done = as_person("plot", str(run), b"caf\xe9", stdout=subprocess.DEVNULL)
    assert one_line(done), done.stderr
    assert b"UTF-8" in done.stderr


def test_a_closed_pipe_is_silent():
    read, write = os.pipe()
    os.close(read)
    done = as_person("recipes", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(os.name != "posix", reason="needs descriptors")
@pytest.mark.parametrize(
    ("number", "words"),
    [(0, ["translate", "RUN", "-"]), (1, ["recipes"]), (1, ["translate", "RUN", "FILE"])],
)
def test_a_closed_stream_is_one_line(run, tmp_path, number, words):
    (tmp_path / "lines.txt").write_text("a b\n")
    names = {"RUN": str(run), "FILE": str(tmp_path / "lines.txt")}
    arguments = [names.get(word, word) for word in words]
    done = as_person(*arguments, preexec_fn=lambda: os.close(number))
    assert one_line(done), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs descriptors")
def test_errors_are_no_output_if_the_standard_error_is_closed():
    done = as_person("recipes", "none", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    assert (done.returncode, done.stdout) == (1, b"")


def test_score_prints_a_log_probability_for_each_pair(capsys, run, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\ta b\nc\tx y z\n")
    _, out, _ = regard(capsys, "score", run, pairs, "--verbose")
    totals = [line.split("\t") for line in out.splitlines() if "\t" in line]
    steps = [float(line.split()[0]) for line in out.splitlines() if "\t" not in line]
    assert len(totals) == 2
    assert sum(steps) == pytest.approx(sum(float(row[0]) for row in totals), abs=1e-2)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "json", "npz"])
def test_plot_writes_the_requested_format(capsys, run, tmp_path, suffix):
    picture = tmp_path / f"picture.{suffix}"
    status, out, _ = regard(capsys, "plot", run, "a b c", "-o", picture)
    assert status == 0
    assert str(picture) in out
    assert picture.stat().st_size > 100


@pytest.mark.parametrize(("suffix", "num_reads"), [(".png", 0), (".json", 1), (".npz", 1)])
def test_a_figure_does_not_run_the_decoder_again(
    capsys, run, tmp_path, monkeypatch, suffix, num_reads
):
    """Only the probabilities that a file of numbers has need a second run, over the output."""
    searches, reads = [], []
    monkeypatch.setattr("regard.tasks.generation.greedy_search", counted(greedy, searches.append))
    monkeypatch.setattr("regard.tasks.tracing.forced", counted(forced, reads.append))
    output = tmp_path / f"figure{suffix}"
    assert regard(capsys, "plot", run, "a b c", "-o", output)[0] == 0
    assert (len(searches), len(reads)) == (1, num_reads)
    assert output.exists()


def counted(function, count):
    def wrapper(*arguments, **options):
        count(1)
        return function(*arguments, **options)

    return wrapper


def test_plot_draws_in_the_terminal_and_takes_a_target(capsys, run):
    _, out, _ = regard(capsys, "plot", run, "a b c", "--target", "x y")
    assert out.splitlines()[0] == "x y"
    assert "<eos>" in out


def test_lines_of_the_training_loss_name_their_update(capsys):
    view = TrainingView(lines=True)
    for update in (50, 100):
        line = TrainLine(
            update=update,
            epoch=1,
            loss=0.87018,
            learning_rate=0.001,
            tokens_per_second=1.0,
            seconds=1.0,
        )
        view.on_train(line, Progress(update, 200))
    check_message(capsys.readouterr().out)


def test_examples_of_the_dev_score_are_cut_off(capsys):
    view = TrainingView(lines=False)
    line = DevLine(update=1, epoch=1, score=0.0, metric="BLEU", loss=1.0, best=True, seconds=1.0)
    example = Example("a", "b", "babble" * 100)
    view.on_validation(line, Validation(0.0, "BLEU", 1.0, (example,)))
    printed = capsys.readouterr().out.splitlines()[1]
    assert printed.endswith("…    (b)")
    assert len(printed) < 120


def test_the_encoding_of_a_file_is_recognised_or_set(capsys, run, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text("a b c\n\nb\n")
    expected = regard(capsys, "translate", run, text)
    text.write_bytes("a b c\n\nb\n".encode("utf-16"))
    assert regard(capsys, "translate", run, text) == expected

    text.write_bytes("Αθήνα λόγος\nμέλι και γάλα\n".encode("cp1253"))
    _, _, err = regard(capsys, "translate", run, text)
    check_message(err)
    assert 'the vocabulary lacks "Αθήνα", "λόγος"' in err
    _, _, err = regard(capsys, "translate", run, text, "--encoding", "cp1252")
    assert ("read as" in err, 'the vocabulary lacks "ÁèÞíá"' in err) == (False, True)

    text.write_bytes(b"a\n\x81\n")
    _, _, err = regard(capsys, "translate", run, text, "--encoding", "cp1252")
    check_message(err)


def test_data_lists_the_examples_with_the_commands_that_train_them(capsys):
    status, out, _ = regard(capsys, "data")
    assert status == 0
    check_message(out)


def test_data_writes_an_example_with_its_command(capsys, tmp_path):
    table, folder = tmp_path / "forms.csv", tmp_path / "captions"
    _, out, _ = regard(capsys, "data", "letters", "--size", 30, "-o", table)
    assert out == f"{table}: 30 examples; train it: regard train {table}\n"
    assert table.read_text().startswith("number;word;transliteration;notes\n1;")
    _, out, _ = regard(capsys, "data", "captions", "--size", 3, "-o", folder)
    assert "3 images, 15 captions; train it: regard train" in out
    scenes = (folder / "scenes.tsv").read_text()
    assert scenes.count("\n") == 3
    assert ";" not in scenes
    status, _, err = regard(capsys, "data", "labels", "--size", 5000)
    assert status == 1
    check_message(err)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("letters", ("word -> source", "60 pairs; 0 repeat an earlier one", "min_count 1:")),
        ("labels", ("intent -> target", "60 examples: 54 to train, 3 dev", "alarm 10, ")),
        ("values", ("highest -> target", "60 examples: 54 to train, 3 dev", "targets from ")),
    ],
)
def test_check_reports_on_data_of_each_task(capsys, tmp_path, name, lines):
    path = tmp_path / "data.csv"
    regard(capsys, "data", name, "--size", 60, "-o", path)
    status, out, err = regard(capsys, "check", path)
    assert (status, err) == (0, "")
    assert out.startswith(f"data.csv: CSV with {'commas' if name == 'labels' else 'semicolons'}")
    assert [line for line in lines if line not in out] == []


def test_check_names_what_stops_a_training(capsys, tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text("".join(f"w{number}\tv{number}\n" for number in range(30)) + "a\n" * 31)
    status, out, _ = regard(capsys, "check", path)
    assert (status, "training would stop: only 30 of 61 lines can be read" in out) == (1, True)
    captions = tmp_path / "captions.csv"
    captions.write_text("file,caption\n" + "".join(f"{n}.png,thing {n}\n" for n in range(30)))
    status, _, err = regard(capsys, "check", captions)
    assert (status, err.count("\n")) == (1, 1)
    assert "none of the 29 images is in" in err
    status, _, err = regard(capsys, "check", captions, "--min-count", 2)
    assert (status, "--min-count has no effect on" in err) == (1, True)
    status, out, _ = regard(capsys, "check", captions, "--task", "translate")
    assert (status, "30 pairs" in out) == (0, True)


def test_check_tokenizes_as_training(capsys, tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("a b\na c\n" * 50)
    target.write_text("xy\nxz\n" * 50)
    both = ("check", source, "--target-path", target)
    dev = ("--dev", source, "--dev-target-path", target)
    test = ("--test", source, "--test-target-path", target)
    _, out, _ = regard(capsys, *both, *dev, *test, "--target-tokenizer", "characters")
    assert "source: 200 tokens" in out
    assert "target: 200 tokens" in out
    assert "dev: 100 pairs, 100 with a source" in out
    assert "test: 100 pairs, 100 with a source" in out
    assert "would be unknown" not in out
    _, out, _ = regard(capsys, *both, "--min-count", 51)
    assert "50% of the source pieces of new texts would be unknown" in out
    assert regard(capsys, *both, "--tokenizer", "bpe", "--vocabulary-size", 9)[0] == 0
    status, _, err = regard(capsys, *both, "--tokenizer", "bpe", "--vocabulary-size", 6)
    assert status == 1
    assert "a vocabulary of 6 cannot hold" in err


def test_recipes_lists_and_shows(capsys):
    _, out, _ = regard(capsys, "recipes")
    assert "tatoeba-luong" in out
    _, out, _ = regard(capsys, "recipes", "toy")
    assert "wiring: luong" in out
    assert str(tuple()) not in out


EQUAL_COSTS = {"captions", "shapes-caption-rewards", "numbers"}
"""Recipes with the slowest data, whose models have the parts of other recipes."""


def test_recipes_prints_the_cost_of_training(capsys, monkeypatch):
    names = [name for name in recipes.names() if name not in EQUAL_COSTS]
    monkeypatch.setattr(recipes, "names", lambda: names)
    _, out, _ = regard(capsys, "recipes", "wmt14-transformer-base", "--cost")
    assert "63,119,496 parameters (vocabulary 37,000)" in out
    assert "9.4e+12 FLOPs for an update of 50,000 tokens, 9.4e+17 for 100,000 updates" in out
    assert "3.3e+18 FLOPs published for en-de: 8 P100 for 12 hours at 9.5 teraFLOPs" in out
    assert "the recipe takes 29% of them" in out
    assert "six FLOPs for each weight" in out
    _, out, _ = regard(capsys, "recipes", "multi30k-gnmt-rewards", "--cost")
    assert "these are for the likelihood: expected_reward takes 6.1 times as many" in out
    _, out, _ = regard(capsys, "recipes", "--cost")
    assert len(re.findall(r"^    [\d,]+ parameters", out, re.MULTILINE)) == len(names)
    assert "parameters (vocabulary 34)\ndrinks-total\n" in out  # no matrix, no FLOPs
    assert "\nseries\n    17,057 parameters\n" in out
    assert "0.0e+00" not in out
    published = [cost for costs in PUBLISHED.values() for cost in costs]
    assert out.count(" FLOPs published for ") == len(published)
    assert "\nByteNet                  en-de       277 M     1.2e+18        none\n" in out
    assert "assumed: only the data gives it" in out


def word_to_word(path):
    """A file of pairs of one word each."""
    path.write_text("".join(f"{4 * letter}\t{2 * letter}\n" for letter in LETTERS))
    return path


def test_targets_of_one_word_do_not_save_the_initial_weights(capsys, tmp_path):
    data, run = word_to_word(tmp_path / "mine.tsv"), tmp_path / "run"
    command = ("train", data, "-o", run, "--data.dev-path", data, "--data.tokenizer", "characters")
    small = ("--model.size", 16, "--training.learning-rate", 0.02)
    status, out, err = regard(capsys, *command, *small, "--training.epochs", 4)
    assert (status, err) == (0, "")
    assert out.count("dev loss") == 5  # four validations, and the average
    shutil.rmtree(run)
    bleu = ("--training.metric", "bleu", "--training.epochs", 3)
    _, out, err = regard(capsys, *command, *small, *bleu)
    assert err == ""
    assert "(dev BLEU 0.00): only 3 updates, fewer than the 200 of the warm-up; " in out
    assert "BLEU was 0 at every validation" in out
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    dev = [line for line in lines if line["kind"] == "dev"]
    losses = [line["loss"] for line in dev]
    assert losses == sorted(losses, reverse=True)
    assert [line["best"] for line in dev] == [True, True, True]


@pytest.fixture(scope="module")
def transformer(trained):
    return trained("transformer")


def test_plot_draws_the_requested_layer_and_head(capsys, transformer):
    def drawn(*flags):
        status, out, err = regard(capsys, "plot", transformer, "a b c", "--target", "x y", *flags)
        assert (status, err) == (0, "")
        return out

    every = drawn()
    panels = ["layer 1, head 1", "layer 1, head 3", "layer 2, head 3"]
    assert all(name in every for name in panels)
    head = drawn("--kind", "decoder", "--layer", 2, "--head", 3)
    assert head.splitlines()[1] == "decoder, layer 2, head 3"
    assert head.count("layer") == 1
    assert "100" in head.splitlines()[4]  # the first word sees itself alone
    heads = drawn("--kind", "encoder", "--layer", 1)
    assert ("head 1" in heads, "layer 2" in heads) == (True, False)
    assert "head" not in drawn("--mean")


def test_the_log_has_the_balance_and_the_load_of_experts(transformer):
    lines = [json.loads(line) for line in (transformer / "log.jsonl").read_text().splitlines()]
    train_lines = [line for line in lines if line["kind"] == "train"]
    assert train_lines
    for line in train_lines:
        assert line["penalties"].keys() == {"importance", "load"}
        assert all(0 <= value < 1 for value in line["penalties"].values())
        assert line["measures"].keys() == {"encoder_load", "decoder_load"}
        assert all(1 <= value <= 3 / 2 for value in line["measures"].values())


def test_plot_shows_the_work_of_experts_over_a_file(capsys, transformer, tmp_path):
    source = tmp_path / "source.txt"
    source.write_text("a b c\n\nc b\n", encoding="utf8")
    figure = tmp_path / "experts.png"
    status, out, err = regard(
        capsys, "plot", transformer, source, "--experts", "--title", "work", "-o", figure
    )
    assert (status, out.strip(), err) == (0, str(figure), "")
    assert figure.read_bytes().startswith(b"\x89PNG")
    status, out, err = regard(capsys, "plot", transformer, source, "--experts", "--layer", 2)
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[:2] for row in rows if row[:1] == ["2"]] == [["2", "1"], ["2", "2"], ["2", "3"]]
    loads = [float(row[2]) for row in rows if row[:1] == ["2"]]
    assert sum(loads) == pytest.approx(3, abs=0.02)
    status, out, _ = regard(capsys, "plot", transformer, "a b", "--kind", "encoder_experts")
    assert status == 0
    check_message(out.splitlines()[1])


@pytest.mark.parametrize(
    ("name", "text", "flags"),
    [
        ("transformer", "a b\n", ("--layer", 3)),
        ("transformer", "a b\n", ("--kind", "cross")),
        ("transformer", "a b\n", ("-o", "trace.json")),
        ("transformer", "\n", ()),
        ("run", "a b\n", ()),
    ],
)
def test_plot_of_experts_that_does_not_apply_is_one_line(
    capsys, request, tmp_path, name, text, flags
):
    source = tmp_path / "source.txt"
    source.write_text(text, encoding="utf8")
    run = request.getfixturevalue(name)
    status, _, err = regard(capsys, "plot", run, source, "--experts", *flags)
    assert (status, err.count("\n")) == (1, 1)
    check_message(err)


def test_attention_to_extra_vectors_is_drawn(capsys, tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(1).normal(size=(2, 5)))
    vectors = dict(memory_vectors=3, extra_vectors=tmp_path / "vectors.npy")
    model = configs.changed(small().model, **vectors)
    train(replace(small(epochs=1), model=model), tmp_path / "run")
    arguments = ("plot", tmp_path / "run", "a b c", "--target", "x y", "--kind")
    status, out, err = regard(capsys, *arguments, "memory")
    assert (status, err) == (0, "")
    assert out.splitlines()[1] == "memory"
    assert ["1", "2", "3", "1", "2"] in [line.split() for line in out.splitlines()]
    status, _, err = regard(capsys, *arguments, "image")
    assert status == 1
    check_message(err)


def test_export_writes_a_run_or_reports_one_line(capsys, run, tmp_path):
    needs.export("onnx")
    status, out, _ = regard(capsys, "export", run, "--to", "onnx", "-o", tmp_path / "there")
    assert status == 0
    named = out.strip().removeprefix(f"{tmp_path / 'there'}: ").split(", ")
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == named
    status, _, err = regard(capsys, "export", run, "--to", "onnx", "-o", tmp_path / "there")
    assert (status, err.count("\n")) == (1, 1)
    assert "is not empty" in err


def test_every_command_that_runs_a_model_takes_an_ensemble(capsys, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\ta b\n")
    texts = tmp_path / "in.txt"
    texts.write_text("a b c\n")
    for command in (
        ("translate", copy, texts),
        ("plot", copy, "a b"),
        ("score", copy, pairs),
        ("evaluate", copy, pairs),
    ):
        alone = regard(capsys, *command)
        status, out, err = regard(capsys, *command, "--ensemble", run, run)
        assert (status, out.replace(", ensemble of 3\n", "\n"), err) == alone
        assert ("ensemble of 3" in out) == (command[0] == "evaluate")
        status, _, err = regard(capsys, *command, "--ensemble", tmp_path)
        assert status == 1
        assert "is not a run" in err
    entries = json.loads((copy / "results.json").read_text())[str(pairs.resolve())]
    assert [len(each["ensemble"]) for each in entries] == [0, 2]


def test_average_writes_a_run(capsys, run, tmp_path):
    copy, new = shutil.copytree(run, tmp_path / "copy"), tmp_path / "new"
    status, out, err = regard(capsys, "average", run, copy, "-o", new)
    assert (status, err) == (0, "")
    assert f"regard evaluate {new}" in out
    assert (
        regard(capsys, "evaluate", new)[1].splitlines()[1:]
        == (regard(capsys, "evaluate", run)[1].splitlines()[1:])
    )
    status, _, err = regard(capsys, "average", run, copy, "-o", new)
    assert status == 1
    assert err.count("\n") == 1


def test_lines_beyond_max_source_have_no_output(capsys, run, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text("a b\n" + "a " * 2_000 + "\nb a\n")
    status, out, err = regard(capsys, "translate", run, text)
    assert (status, out.count("\n")) == (1, 3)
    assert out.split("\n")[1] == ""
    check_message(err)
    assert regard(capsys, "translate", run, text, "--max-source", 3)[:2] == (status, out)
    assert "the text has more than " in regard(capsys, "plot", run, "a " * 2_000)[2]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n" + "a " * 6_000 + "\tb\n")
    status, out, err = regard(capsys, "score", run, pairs)
    assert (status, out.count("\n"), out.split("\n")[1].split("\t")[0]) == (1, 2, "nan")
    check_message(err)
    assert regard(capsys, "translate", run, "/dev/zero")[0] == 1


@pytest.mark.parametrize(("beam", "warns"), [(1, True), (2, False)])
def test_a_coverage_penalty_without_a_beam_is_reported(capsys, run, tmp_path, beam, warns):
    (tmp_path / "in.txt").write_text("a b\n")
    flags = ("--coverage-penalty", "0.2", "--beam", beam)
    status, _, err = regard(capsys, "translate", run, tmp_path / "in.txt", *flags)
    assert status == 0
    assert ("search.coverage_penalty has no effect: a beam of 1 has only one" in err) == warns
