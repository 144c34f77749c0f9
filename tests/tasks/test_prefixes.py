"""Outputs begin with the prefix of a call, a command or a request."""

from dataclasses import replace

import pytest
from PIL import Image

import regard as package
from regard.errors import UserError
from regard.serving.api.limits import Limits
from regard.serving.service import Service, served_runs
from regard.tasks.prefixes import PrefixError
from tests.cli.test_commands import regard
from tests.messages import check_message, raises
from tests.serving.services import request
from tests.small_runs import RUNS

TEXTS = ["a b c d", "a c", "", "b"]
KINDS = ["bahdanau", "transformer", "plain", "luong-coverage"]
LONG = " ".join("ABCD" * 4)


def load(kind):
    return package.TranslationModel.load(*(RUNS / name for name in kind.split("+")))


@pytest.mark.parametrize("kind", [*KINDS, "bahdanau+bahdanau"])
@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_begin_with_their_prefixes(kind, beam):
    model = load(kind)
    search = replace(model.experiment.search, beam=beam)
    prefixes = ["D D", "", "A", " "]
    results = model.translate(TEXTS, search=search, num_best=beam, prefix=prefixes)
    plain = model.translate(TEXTS, search=search, num_best=beam)
    for prefix, text, result, free in zip(prefixes, TEXTS, results, plain, strict=True):
        if not text:
            assert result.text == ""
            continue
        if not prefix.strip():
            assert result.text == free.text
            assert result.score == pytest.approx(free.score, rel=1e-4, abs=1e-6)
        tokens = model.tokenizers.target.encode(prefix)
        for output in (result, *result.alternatives):
            assert output.text.startswith(model.tokenizers.target.normalise(prefix))
            assert output.trace.target.pieces[: len(tokens.ids)] == tokens.pieces
            steps = [step.log_probability for step in output.trace.steps]
            assert output.score == pytest.approx(sum(steps) / len(steps), rel=1e-4, abs=1e-6)
            for block in output.maps:
                if block.kind in ("cross", "decoder"):
                    assert block.weights.shape[2] == len(steps)


@pytest.mark.parametrize("kind", KINDS)
def test_prefixes_of_the_output_give_the_output_and_its_score(kind):
    model = load(kind)
    for text in filter(None, TEXTS):
        free = model.translate(text)
        words = free.text.split()
        for length in range(len(words) + 1):
            result = model.translate(text, prefix=" ".join(words[:length]))
            assert result.text == free.text
            assert result.score == pytest.approx(free.score, rel=1e-4, abs=1e-6)
        if not free.is_cut:
            (scored,) = model.score([(text, free.text)])
            total = result.score * len(result.trace.steps)
            assert total == pytest.approx(scored.score, rel=1e-4, abs=1e-6)


def test_one_prefix_is_for_all_texts():
    model = load("bahdanau")
    together = model.translate(TEXTS, prefix="C C")
    assert [each.text[:3] for each in together] == ["C C", "C C", "", "C C"]
    for text, result in zip(TEXTS, together, strict=True):
        alone = model.translate(text, prefix="C C")
        assert alone.text == result.text
        assert alone.score == pytest.approx(result.score, rel=1e-5)


@pytest.mark.parametrize(
    "prefix",
    [
        "A xyz",
        ["", "A", "", LONG + " A"],
        ["A"],
    ],
)
def test_prefixes_that_the_model_cannot_write(prefix):
    model = load("bahdanau")
    search = replace(model.experiment.search, max_length=9)
    with raises(ValueError):
        model.translate(TEXTS, search=search, prefix=prefix)


def test_a_prefix_as_long_as_the_maximum_is_the_output():
    model = load("bahdanau")
    search = replace(model.experiment.search, max_length=2, beam=3)
    result = model.translate("a b", search=search, num_best=3, prefix="D D")
    assert (result.text, result.is_cut, result.alternatives) == ("D D", True, ())


def test_captions_begin_with_their_prefix(tmp_path):
    images = [tmp_path / "a.png", tmp_path / "b.png"]
    for image in images:
        Image.new("RGB", (9, 9)).save(image)
    model = package.CaptionModel.load(RUNS / "captioner")
    first, second = model.caption(images, prefix=["Blue", ""])
    assert first.text.startswith("blue")
    assert second.text == model.caption(images[1]).text
    for each in model.caption(images, num_best=3, beam=3, prefix="red"):
        assert all(output.text.startswith("red") for output in (each, *each.alternatives))
    with pytest.raises(PrefixError, match='has a prefix with "a", "purple", which the'):
        model.caption(images[0], prefix="a purple")


def test_repetition_options_reach_the_search():
    model = load("bahdanau")
    search = replace(model.experiment.search, max_length=30, min_length=6)
    free = model.translate("a b c d", search=replace(search, max_length=60))
    result = model.translate("a b c d", search=replace(search, no_repeat_ngram=2), prefix="A A")
    pairs = list(zip(result.text.split(), result.text.split()[1:], strict=False))
    assert len(set(pairs)) == len(pairs)
    penalised = model.translate("a b c d", search=replace(search, repetition_penalty=1.5))
    assert penalised.score < free.score
    with raises(UserError, "search.no_repeat_ngram"):
        model.translate("a", search=replace(search, no_repeat_ngram=1, min_length=20))


def test_the_commands_have_options(tmp_path, capsys):
    path, prefixes = tmp_path / "in.txt", tmp_path / "prefixes.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    translate = "translate", RUNS / "bahdanau", path
    status, out, _ = regard(capsys, *translate, "--prefix", "C C", "--no-repeat-ngram", 3)
    assert (status, [line[:3] for line in out.splitlines()]) == (0, ["C C", "C C", "", "C C"])
    prefixes.write_text("D\n\n\nA A\n")
    links = "--alignments", tmp_path / "links.txt", "--trace", tmp_path / "t.jsonl", "--nbest", 2
    status, out, _ = regard(capsys, *translate, "--prefix-file", prefixes, *links, "--beam", 2)
    texts = [line.split("\t") for line in out.splitlines()]
    assert status == 0
    assert [text[:1] for number, _, text in texts if number == "0"] == ["D", "D"]
    assert [text[:3] for number, _, text in texts if number == "3"] == ["A A", "A A"]
    prefixes.write_text(f"D\nq\nC\n{LONG}\n")
    short = "--max-length", 9
    status, out, err = regard(capsys, *translate, "--prefix-file", prefixes, *short)
    assert (status, [line[:1] for line in out.splitlines()]) == (1, ["D", "", "", ""])
    check_message(err)
    for lines, message in (
        ("A\n", "prefixes.txt has 1 lines, but"),
        ("A\n" * 5, "prefixes.txt has 5 lines for 4 sources: expected a line for each"),
    ):
        prefixes.write_text(lines)
        status, _, err = regard(capsys, *translate, "--prefix-file", prefixes)
        assert status == 1
        assert message in err
    status, _, err = regard(capsys, *translate, "--prefix", "A", "--prefix-file", prefixes)
    assert (status, "leave one of them out" in err) == (1, True)
    image = tmp_path / "a.png"
    Image.new("RGB", (9, 9)).save(image)
    status, out, _ = regard(capsys, "caption", RUNS / "captioner", image, "--prefix", "red")
    assert status == 0
    assert out.split("\t")[1].startswith("red")
    status, _, err = regard(capsys, "caption", RUNS / "captioner", image, "--prefix", "purple")
    assert (status, 'a prefix with "purple"' in err) == (1, True)


def test_the_service_has_a_field():
    def send(**body):
        return request(Service(served_runs([RUNS / "bahdanau"]), Limits()), "/translate", body)

    answer = send(texts=TEXTS, prefix="C C", beam=2, nbest=2, attention=True)
    assert [each["text"][:3] for each in answer.results] == ["C C", "C C", "", "C C"]
    assert answer.results[0]["trace"]["target"]["pieces"][:2] == ["C", "C"]
    assert send(texts=TEXTS, prefix="").results == send(texts=TEXTS).results
    longer = "a b c d " * 4
    answer = send(texts=["a", longer], prefix=LONG)
    assert "has a prefix of 16 tokens: expected at most" in answer.results[0]["error"]
    assert answer.results[1]["text"].startswith(LONG)
    answer = send(texts=["a"], prefix="q")
    assert answer.status == 422
    assert 'a prefix with "q", which the vocabulary lacks' in answer.error
    assert send(texts=["a"], prefix=3).status == 422
