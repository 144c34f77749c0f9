"""Lines that do not have the form of the training sources, in every command, in Python and in the
service."""

import json
import random
from dataclasses import replace

import pytest

import regard as package
from regard.config import ClassificationDataConfig, DataConfig, Experiment, TrainingConfig
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.pipeline.train import train
from regard.serving.api.limits import Limits
from regard.serving.service import Service, served_runs
from regard.tasks.source_form import WITH_TAB, SourceError, SourceForm
from tests import configs
from tests.cli.test_commands import regard
from tests.messages import check_message, raises
from tests.serving.services import request

ENDINGS = {"N;SG": "", "N;PL": "en", "D;SG": "im"}


def rows(count):
    draw = random.Random(2)
    return [("".join(draw.choices("abcd", k=2)), draw.choice(list(ENDINGS))) for _ in range(count)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Lemma, form and features in the third column, as in SIGMORPHON's files."""
    folder = tmp_path_factory.mktemp("forms")
    lines = [f"{stem}\t{stem}{ENDINGS[tag]}\t{tag}\n" for stem, tag in rows(160)]
    (folder / "forms.tsv").write_text("".join(lines))
    sizes = dict(dev_size=8, test_size=8, batch_tokens=None, batch_sentences=16)
    columns = dict(feature_columns=("3",), tokenizer="characters")
    data = DataConfig(path=folder / "forms.tsv", **columns, **sizes)
    model = configs.recurrent(size=12, attention=dict(size=11))
    training = TrainingConfig(epochs=1, learning_rate=0.03, device="cpu")
    train(Experiment(data=data, model=model, training=training), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Texts with a season and a year beside them."""
    folder, draw = tmp_path_factory.mktemp("labels"), random.Random(3)
    lines = [f"{draw.choice(['hot', 'cold'])} day,summer,{n % 3},{'ab'[n % 2]}" for n in range(60)]
    (folder / "days.csv").write_text("text,season,year,label\n" + "\n".join(lines))
    data = ClassificationDataConfig(
        path=folder / "days.csv", feature_columns=("season", "year"), dev_size=8, test_size=8
    )
    training = TrainingConfig(epochs=1, device="cpu")
    train(Experiment(data=data, model=configs.classifier(size=8), training=training), folder / "r")
    return folder / "r"


WRONG = ["ab", "ab\tabim\tD;SG", "ab\tD;SG\tx\ty", "ab D;SG", "\tD;SG", "a@@ b\tD;SG"]
EXPECTED = "expected 1: column 3 (a line is TEXT TAB FEATURES, with a tab between columns)"


def test_lines_with_another_number_of_features_have_no_translation(run, tmp_path, capsys):
    path, links, traces = (tmp_path / name for name in ("in.txt", "links", "traces"))
    path.write_text("".join(f"{line}\n" for line in ["ab\tD;SG", *WRONG, "", "cd\tN;XX"]))
    files = "--alignments", links, "--trace", traces
    status, out, err = regard(capsys, "translate", run, path, *files)
    assert status == 1
    outputs = out.split("\n")[:-1]
    assert len(outputs) == len(WRONG) + 3
    assert outputs[0]
    assert outputs[1:-1] == [""] * (len(WRONG) + 1)
    assert outputs[-1]
    assert [len(file.read_text().splitlines()) for file in (links, traces)] == [len(WRONG) + 3] * 2
    assert f"lines 2, 5 have 0 features, {EXPECTED}; no output\n" in err
    assert f"line 3 has 2 features, {EXPECTED}; no output\n" in err
    assert f"line 4 has 3 features, {EXPECTED}; no output\n" in err
    assert "line 6 has features, but no text before them" in err
    check_message(err)


def test_a_file_without_a_fitting_line_has_blank_outputs(run, tmp_path, capsys):
    path = tmp_path / "in.txt"
    path.write_text("ab\n")
    status, out, err = regard(capsys, "translate", run, path)
    assert (status, out) == (1, "\n")
    assert err == f"line 1 has 0 features, {EXPECTED}; no output\n"


def test_rows_of_tables_without_their_features_are_listed(labels, tmp_path, capsys):
    path, output = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("text,year,season\nhot day,1,summer\ncold day,2\ncold day,0,summer\n")
    status, _, err = regard(capsys, "classify", labels, path, "-o", output)
    assert status == 1
    check_message(err)
    assert [bool(line.split(",")[3]) for line in output.read_text().splitlines()] == [1, 1, 0, 1]


def test_texts_to_classify_have_their_features(labels, tmp_path, capsys):
    path = tmp_path / "in.txt"
    path.write_text("hot day\tsummer\t1\nhot day\tsummer\ncold day\nhot day\twinter\t\n")
    status, out, err = regard(capsys, "classify", labels, path)
    assert status == 1
    assert [bool(line) for line in out.splitlines()] == [1, 0, 0, 1]
    check_message(err)
    assert "line 3 has 0 features, expected 2" in err
    check_message(err)


def test_python_raises_a_value_error_for_the_first_source(run, labels):
    model, classifier = package.load(run), package.load(labels)
    for wrong in WRONG:
        with pytest.raises(ValueError, match=r"^text\[1\]: has "):
            model.translate(["ab\tD;SG", wrong])
        with pytest.raises(SourceError, match=r"^pairs\[0\]: has "):
            model.score([(wrong, "ab")])
    with raises(ValueError, "source[0]"):
        classifier.classify("hot day")
    assert model.translate("ab\tX").unknown > 0
    assert model.translate(["", " \t "])[0].text == ""


def test_pairs_are_scored_with_their_features(run, tmp_path, capsys):
    model = package.load(run)
    expected = model.score([("ab\tD;SG", "abim"), ("cd\tN;PL", "cden")])
    path = tmp_path / "pairs.tsv"
    path.write_text("ab\tabim\tD;SG\ncd\tcden\tN;PL\n")
    status, out, err = regard(capsys, "score", run, path)
    assert (status, err) == (0, "")
    scores = [line.split("\t")[0] for line in out.splitlines()]
    assert scores == [f"{each.score:.4f}" for each in expected]
    held_out = (run / "test.tsv").read_text().splitlines()
    sources = [tuple(line.rsplit("\t", 1)) for line in held_out]
    _, out, _ = regard(capsys, "score", run, run / "test.tsv")
    assert [float(line.split("\t")[0]) for line in out.splitlines()] == pytest.approx(
        [each.score for each in model.score(sources)], abs=1e-4
    )
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("ab\tD;SG\ncd\n")
    target.write_text("abim\ncden\n")
    status, out, err = regard(capsys, "score", run, source, "--target-path", target)
    assert status == 1
    assert out == f"{expected[0].score:.4f}\tab\tD;SG\tabim\nnan\tcd\tcden\n"
    assert err == f"line 2 has 0 features, {EXPECTED}; no score\n"


def test_evaluation_leaves_pairs_of_another_form_out(run, tmp_path, capsys):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("ab\tD;SG\ncd\ndd\tN;PL\n")
    target.write_text("abim\ncden\nx\n")
    status, out, _ = regard(capsys, "evaluate", run, source, "--target-path", target)
    assert status == 0
    assert f"left out 1 of 3 pairs: {source}, line 2 has 0 features, expected 1: column 3" in out
    assert "2 sources, 2 pairs" in out


def test_a_figure_needs_the_features(run, capsys):
    status, _, err = regard(capsys, "plot", run, "ab")
    assert status == 1
    assert f"has 0 features, {EXPECTED}" in err
    assert err.count("\n") == 1


def test_the_service_has_an_error_for_each_text(run, labels):
    service = service_of(run)
    answer = request(service, "/translate", {"texts": ["ab\tD;SG", "ab", "cd\tN;PL"]})
    assert answer.status == 200
    first, second, third = answer.results
    assert first["text"]
    assert third["text"]
    assert second == {"error": f"texts[1]: has 0 features, {EXPECTED}"}
    answer = request(service_of(run), "/translate", {"texts": WRONG[:2]})
    assert answer.status == 422
    assert answer.error == f"texts[0]: has 0 features, {EXPECTED}"
    answer = request(service_of(labels), "/classify", {"texts": ["hot day", "hot day\tsummer\t1"]})
    assert answer.status == 200
    assert [*answer.results[0]] == ["error"]
    pairs = [{"source": "ab", "target": "ab"}, {"source": "ab\tN;SG", "target": "ab"}]
    answer = request(service_of(run), "/score", {"pairs": pairs})
    assert answer.status == 200
    assert answer.results[0]["error"].startswith("pairs[0]: has 0 features")
    assert answer.results[1]["score"] < 0


TEXT = Tokenizer.train(["a b c @ d"], TokenizerSettings(kind="spaces"))


@pytest.mark.parametrize(
    ("line", "is_fitting"),
    [
        ("lam@@ p is", False),
        ("▁lam p ▁is", False),
        ("lam ##p", False),
        ("lam￭ p", False),
        ("a @@ b, @@c", True),
        ("▁▂▃▅", True),
        ("# title ## b", True),
        ("me@@home", True),
    ],
)
def test_words_in_pieces_are_recognised(line, is_fitting):
    assert (not SourceForm((), TEXT).problem(line)) == is_fitting
    known = Tokenizer.train([line], TokenizerSettings(kind="spaces"))
    assert not SourceForm((), known).problem(line)
    for kind in ("words", "characters", "bpe"):
        settings = TokenizerSettings(kind=kind, size=60 if kind == "bpe" else None)
        known = Tokenizer.train([line] * 9, settings)
        assert not SourceForm((), known).problem(line)


def test_lines_of_files_have_one_source_without_features():
    form = SourceForm((), TEXT)
    assert form.problem_of_line("a\tb") == WITH_TAB
    assert form.problem_of_line("\ta ") == ""
    assert form.problem("a\tb") == ""


def service_of(path):
    return Service(served_runs([path]), Limits())


def test_errors_of_texts_are_in_the_document(run):
    answer = request(service_of(run), "/openapi.json", method="GET")
    operation = json.loads(answer.body)["paths"]["/translate"]["post"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["properties"]["results"]["items"]["anyOf"][1]["required"] == ["error"]


def test_training_on_pieces_in_the_dev_split_is_no_error(tmp_path):
    lines = [f"{a} {b}\t{b} {a}\n" for a in "abcdefgh" for b in "abcdefgh"]
    (tmp_path / "dev.tsv").write_text("a@@ b\tb a\n" * 3)
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    data = DataConfig(path=tmp_path / "pairs.tsv", dev_path=tmp_path / "dev.tsv", test_size=0)
    data = replace(data, tokenizer="spaces")
    model = configs.recurrent(size=8, attention=dict(size=5))
    experiment = Experiment(data=data, model=model, training=TrainingConfig(epochs=1, device="cpu"))
    train(experiment, tmp_path / "run")
