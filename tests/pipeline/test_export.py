"""A run in other engines: the same translations as here, from its files alone."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from regard.config import SearchConfig
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from regard.pipeline import export
from regard.pipeline.load import load
from regard.pipeline.train import train
from tests import configs, needs
from tests.messages import raises
from tests.small_runs import small

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    """A Transformer that has learned a little of writing numbers."""
    folder = tmp_path_factory.mktemp("runs") / "transformer"
    experiment = small(epochs=4, learning_rate=0.01)
    data = dict(synthetic="numbers", synthetic_size=800, test_size=200)
    pieces = dict(tokenizer="bpe", vocabulary_size=120)
    model = configs.transformer(size=32, heads=2, layers=1, feed_forward=48)
    train(replace(experiment, data=replace(experiment.data, **data, **pieces), model=model), folder)
    return folder


def read(folder):
    """Return about.json and the tokenizers of an export."""
    sides = [
        tokenizers.Tokenizer.from_file(str(folder / f"{side}.tokenizer.json"))
        for side in ("source", "target")
    ]
    return json.loads((folder / "about.json").read_text()), *sides


def sources_of(run):
    return [pair.source for pair in read_pairs(run / "test.tsv").pairs]


@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("length_penalty", ["average", 0.0])
def test_ctranslate2_gives_equal_translations(transformer, tmp_path, beam, length_penalty):
    ctranslate2 = needs.export("ctranslate2")
    translator, texts = load(transformer), sources_of(transformer)
    search = SearchConfig(
        beam=beam, length_penalty=length_penalty, max_length=40, early_stopping=False
    )
    ours = translator.translate(texts, search=search, attention=False)
    export.export(transformer, "ctranslate2", tmp_path / "there")
    about, source, target = read(tmp_path / "there")
    assert about["search"]["patience"] == 2
    penalty = 0 if length_penalty == 0 else 1
    about["search"] |= {"beam_size": beam, "length_penalty": penalty, "patience": 40}
    theirs = ctranslate2.Translator(str(tmp_path / "there"), compute_type="float32")
    pieces = [each.tokens for each in source.encode_batch(texts)]
    results = theirs.translate_batch(
        pieces, max_decoding_length=40, return_scores=True, **about["search"]
    )
    written = [[target.token_to_id(piece) for piece in each.hypotheses[0]] for each in results]
    assert len({each.text for each in ours}) > 50
    equal, others = list[float](), list[float]()
    for here, ids, there in zip(ours, written, results, strict=True):
        same = target.decode(ids) == here.text
        (equal if same else others).append(abs(here.score - there.scores[0]))
    # What is never written has no share of the probability there, so scores of equal translations
    # differ. Two translations may only change places if they differ by less.
    assert len(others) <= 2
    assert max(others, default=0) <= max(equal) < 1e-2


def test_onnxruntime_gives_equal_translations(run, tmp_path):
    onnxruntime = needs.export("onnxruntime")
    needs.export("onnx")
    export.export(run, "onnx", tmp_path / "there")
    about, source, target = read(tmp_path / "there")
    encoder, decoder = (
        onnxruntime.InferenceSession(tmp_path / "there" / f"{name}.onnx")
        for name in ("encoder", "decoder")
    )

    def call(session, inputs):
        names = [each.name for each in session.get_inputs()]
        outputs = [each.name for each in session.get_outputs()]
        values = session.run(outputs, {name: inputs[name] for name in names})
        return dict(zip(outputs, values, strict=True))

    def write(text):
        ids = source.encode(text).ids + about["source_end"]
        inputs = {"source": np.array([ids]), "lengths": np.array([len(ids)])}
        inputs |= call(encoder, inputs)
        token, written = about["start"], []
        for _ in range(math.ceil(about["max_ratio"] * len(ids)) + about["beyond_ratio"]):
            values = call(decoder, {**inputs, "token": np.array([token])})
            values["logits"][:, about["never_written"]] = -np.inf
            token = int(values["logits"].argmax())
            if token == about["end"]:
                break
            written.append(token)
            inputs |= {name.removeprefix("next_"): array for name, array in values.items()}
        return target.decode(written)

    texts = sources_of(run)
    ours = load(run).translate(texts, search=replace(load(run).experiment.search, beam=1))
    assert [write(text) for text in texts] == [each.text for each in ours]


def test_existing_files_are_not_overwritten(run, tmp_path):
    needs.export("onnx")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        export.export(run, "onnx", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_failed_export_leaves_no_files(transformer, tmp_path):
    needs.export("onnx")
    with pytest.raises(UserError, match="--to ctranslate2"):
        export.export(transformer, "onnx", tmp_path / "there")
    assert not any(tmp_path.iterdir())


def test_a_missing_library_names_its_package(run, tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'onnx'", name="onnx")

    monkeypatch.setattr(export.importlib, "import_module", missing)
    with raises(UserError):
        export.export(run, "onnx", tmp_path / "there")


def test_a_model_without_end_tokens_is_rejected(tmp_path):
    needs.export("ctranslate2")
    experiment = small(epochs=1)
    model = configs.transformer(size=8, heads=1, layers=1, feed_forward=8)
    data = replace(experiment.data, target_end=False)
    train(replace(experiment, data=data, model=model), tmp_path / "run")
    with pytest.raises(UserError, match=r"data\.target_end false"):
        export.export(tmp_path / "run", "ctranslate2", tmp_path / "there")


def test_attention_without_an_export_is_named(tmp_path):
    needs.export("ctranslate2")
    model = configs.transformer(
        size=8, heads=1, layers=1, feed_forward=8, attention=dict(score="additive")
    )
    train(replace(small(epochs=1), model=model), tmp_path / "run")
    with pytest.raises(UserError, match="softmax of Additive"):
        export.export(tmp_path / "run", "ctranslate2", tmp_path / "there")
