"""Sources of an exact dictionary have its targets without decoding."""

import json
import math
from dataclasses import replace

import pytest

import regard as package
from regard.errors import UserError
from regard.serving.api.limits import Limits
from regard.serving.service import Service, served_runs
from regard.tasks.exceptions import Exceptions, ExceptionsError
from tests.cli.test_commands import regard
from tests.messages import raises
from tests.serving.services import request
from tests.small_runs import RUNS

TEXTS = ["a b c d", "a c", "", "b", " a  c "]
PAIRS = {"a c": "Ausnahme Eins", "zzz": "Zett"}


def load(kind="bahdanau"):
    return package.TranslationModel.load(*(RUNS / name for name in kind.split("+")))


def written(folder, pairs=PAIRS, name="words.tsv"):
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs.items()))
    return path


@pytest.mark.parametrize("kind", ["bahdanau", "transformer", "plain", "bahdanau+bahdanau"])
@pytest.mark.parametrize("attention", [True, False])
def test_exceptions_are_not_decoded_and_others_are_unchanged(kind, attention, tmp_path):
    model = load(kind)
    plain = model.translate(TEXTS, attention=attention)
    path = written(tmp_path)
    for exceptions in (PAIRS, path, str(path), Exceptions.of(path, model)):
        results = model.translate(TEXTS, attention=attention, exceptions=exceptions)
        assert [each.is_exception for each in results] == [False, True, False, False, True]
        for place in (1, 4):
            result = results[place]
            assert (result.source, result.text) == (TEXTS[place], "Ausnahme Eins")
            assert math.isnan(result.score)
            assert (result.trace, result.maps, result.alternatives) == (None, (), ())
            assert (result.is_cut, result.is_long, result.is_refused) == (False, False, False)
            with pytest.raises(ValueError, match="an exception"):
                _ = result.attention
            assert "from the exceptions" in repr(result)
            assert "nan" not in repr(result) + result._repr_html_()
        for place in (0, 2, 3):
            assert results[place].text == plain[place].text
            assert results[place].score == pytest.approx(plain[place].score, rel=1e-5)
    assert not any(each.is_exception for each in plain)


def test_exceptions_do_not_run_the_model(monkeypatch):
    model = load()
    monkeypatch.setattr(model._searcher, "search", lambda *_, **__: pytest.fail("decoded"))
    assert model.translate("zzz", exceptions=PAIRS).text == "Zett"
    unlimited = replace(model.experiment.search, max_source=1)
    result = model.translate("a c", search=unlimited, exceptions=PAIRS)
    assert (result.text, result.is_refused) == ("Ausnahme Eins", False)


def test_sources_are_compared_as_the_model_reads_them():
    model = load()
    decomposed = {"cafe\u0301  b": "Kaffee  mit e\u0301"}
    result = model.translate(["caf\u00e9 b", "Caf\u00e9 b", "cafe b"], exceptions=decomposed)
    assert [each.is_exception for each in result] == [True, False, False]
    assert result[0].text == "Kaffee mit \u00e9"
    lower = model.tokenizers.source.settings
    tokenizer = type(model.tokenizers.source)(
        model.tokenizers.source._engine.model, replace(lower, lowercase=True)
    )
    form = replace(model.source_form, tokenizer=tokenizer)
    exceptions = Exceptions._of_pairs((), form, "")
    exceptions = replace(exceptions, targets={exceptions._normalise("ÀB c"): "x"})
    assert exceptions.among(["àb  C", "b"]) == {0: "x"}


def test_a_source_with_a_prefix_is_decoded():
    model = load()
    prefixes = ["", "D", "", "", " "]
    results = model.translate(TEXTS, prefix=prefixes, exceptions=PAIRS)
    assert [each.is_exception for each in results] == [False, False, False, False, True]
    assert results[1].text.startswith("D")


def test_an_exception_has_no_alternatives():
    results = load().translate(TEXTS, num_best=2, beam=3, exceptions=PAIRS)
    assert [len(each.alternatives) for each in results] == [1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a b\tX\na c\tY\n a  b\tZ\n", "several targets for 'a b' (lines 1 and 3): keep one"),
        ("a\n\nb\n", "no pairs in "),
        ("", "no pairs in "),
        (None, "cannot read "),
        ("lam@@ p a\tX\nb c\tY\n", "line 1 has words in pieces (@@)"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, capsys, content, message):
    path = tmp_path / "words.tsv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ExceptionsError) as error:
        load().translate("a", exceptions=path)
    assert message in str(error.value)
    text = tmp_path / "in.txt"
    text.write_text("a c\n")
    status, out, err = regard(capsys, "translate", RUNS / "bahdanau", text, "--exceptions", path)
    assert (status, out) == (1, "")
    assert message in err
    assert str(path) in err
    assert err.count("\n") == 1


def test_dictionaries_that_cannot_be_used():
    with raises(ValueError, "exceptions"):
        load().translate("a", exceptions={"a c": "X", " a  c": "Y"})
    with raises(TypeError):
        Exceptions.of(["a c"], load())
    with pytest.raises(TypeError, match="a pair of str"):
        Exceptions.of({"a c": 3}, load())
    same = {"a c": "caf\u00e9", " a  c": "cafe\u0301"}
    assert load().translate("a c", exceptions=same).text == "caf\u00e9"


def test_files_have_the_formats_of_training_and_lines_left_out_are_listed(tmp_path, caplog):
    table = tmp_path / "words.csv"
    table.write_text('target,source\n"Eins, zwei",a c\nB,b\n,d\nA,a,x\n')
    assert Exceptions.of(table, load()).targets == {"a c": "Eins, zwei", "b": "B"}
    assert "line 4" in caplog.text
    assert "line 5" in caplog.text
    assert f"{table}: sources in column source, targets in column target" in caplog.text
    sounds = tmp_path / "words.dict"
    sounds.write_text(
        ";;; words\nBABEL  B AE1 B AH0 L\nBAB  B AE1 B\nLAB  L AE1 B\nBALL  B AO1 L\n"
        "ALL  AO1 L # comment\nLAP  L AE1 P\n"
    )
    targets = Exceptions.of(sounds, load()).targets
    assert (len(targets), targets["babel"], targets["all"]) == (6, "B AE1 B AH0 L", "AO1 L")


def test_the_command_has_an_option(tmp_path, capsys):
    path, exceptions = tmp_path / "in.txt", written(tmp_path)
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    translate = "translate", RUNS / "bahdanau", path
    _, plain, _ = regard(capsys, *translate)
    status, out, err = regard(capsys, *translate, "--exceptions", exceptions)
    expected = plain.split("\n")
    expected[1] = expected[4] = "Ausnahme Eins"
    assert (status, out.split("\n")) == (0, expected)
    assert err.splitlines() == [f"2 of 4 sources are from {exceptions}"]
    links, traces, table = tmp_path / "links.txt", tmp_path / "t.jsonl", tmp_path / "in.csv"
    files = "--alignments", links, "--trace", traces, "--nbest", 2, "--beam", 2
    status, out, _ = regard(capsys, *translate, "--exceptions", exceptions, *files)
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[1:] for row in rows if row[0] in "14"] == [["nan", "Ausnahme Eins"]] * 2
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "3", "3", "4"]
    lines = links.read_text().split("\n")
    assert [bool(line) for line in lines] == [True, False, False, True, False, False]
    lines = [json.loads(line) for line in traces.read_text().splitlines()]
    assert [lines[place] for place in (1, 2, 4)] == [
        {"is_exception": True},
        {},
        {"is_exception": True},
    ]
    assert lines[0]["target"]["pieces"]
    status, out, _ = regard(capsys, *translate, "--exceptions", exceptions, "--verbose")
    assert "Generated: Ausnahme Eins" in out
    table.write_text("number,source\n1,a c\n2,b\n")
    status, _, err = regard(
        capsys, "translate", RUNS / "bahdanau", table, "--exceptions", exceptions, "-o", table
    )
    assert (status, "would be overwritten" in err) == (1, True)
    wider = tmp_path / "out.csv"
    status, _, err = regard(
        capsys, "translate", RUNS / "bahdanau", table, "--exceptions", exceptions, "-o", wider
    )
    assert wider.read_text().splitlines()[1].split(",")[:3] == ["1", "a c", "Ausnahme Eins"]
    assert f"1 of 2 sources is from {exceptions}" in err


def test_the_command_with_prefixes_and_shards(tmp_path, capsys):
    path, exceptions = tmp_path / "in.txt", written(tmp_path)
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    translate = "translate", RUNS / "bahdanau", path, "--exceptions", exceptions
    status, _, err = regard(capsys, *translate, "--prefix", "D")
    assert (status, "none would have its target in --exceptions" in err) == (1, True)
    prefixes = tmp_path / "prefixes.txt"
    prefixes.write_text("\nD\n\n\n\n")
    status, out, err = regard(capsys, *translate, "--prefix-file", prefixes)
    assert out.split("\n")[1].startswith("D")
    assert (out.split("\n")[4], status) == ("Ausnahme Eins", 0)
    assert f"1 of 4 sources is from {exceptions}" in err
    _, whole, _ = regard(capsys, *translate)
    parts = [regard(capsys, *translate, "--shard", f"{part}/2") for part in (1, 2)]
    assert "".join(out for _, out, _ in parts) == whole
    status, _, err = regard(capsys, *translate, "-o", exceptions)
    assert (status, "would be overwritten" in err) == (1, True)


def test_the_service_has_exceptions(tmp_path):
    path = written(tmp_path)
    service = Service(served_runs([RUNS / "bahdanau"], exceptions=path), Limits())
    body = {"texts": TEXTS, "beam": 2, "nbest": 2, "attention": True}
    answer = request(service, "/translate", body)
    first, exception = answer.results[:2]
    assert (first["is_exception"], exception["is_exception"]) == (False, True)
    assert (exception["text"], exception["score"], exception["trace"]) == (
        "Ausnahme Eins",
        None,
        None,
    )
    assert exception["alternatives"] == []
    service = Service(served_runs([RUNS / "bahdanau"], exceptions=path), Limits())
    answer = request(service, "/translate", {"texts": ["a c"], "prefix": "D"})
    assert answer.results[0]["text"].startswith("D")
    assert answer.results[0]["is_exception"] is False
    for runs in (["bahdanau", "plain"], ["captioner"]):
        with pytest.raises(UserError, match="--exceptions is for one run that"):
            served_runs([RUNS / name for name in runs], exceptions=path)
