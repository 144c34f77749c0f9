"""Corpora with weights, in one file or in many, plain, gzipped and Parquet."""

import gzip
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from regard import recipes
from regard.cli.analysis import evaluate
from regard.config import DataConfig, Experiment, TrainingConfig, TranslationModelConfig
from regard.config.corpora import CorpusPaths
from regard.corpora import splits
from regard.corpora.sources import matching_files
from regard.errors import UserError
from regard.pipeline.fit import experiment_of
from regard.pipeline.reproduce import Recorded
from regard.pipeline.train import train
from regard.tasks.translation import preparation
from tests import configs
from tests.messages import raises


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def rows(name, number):
    return [(f"{name} {n}", f"{name} {n} so") for n in range(number)]


def tsv(pairs):
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


@pytest.fixture
def files(tmp_path):
    """Return the folder of four corpora."""
    (tmp_path / "news-1.tsv").write_text(tsv(rows("a", 30)))
    (tmp_path / "news-2.tsv.gz").write_bytes(gzip.compress(tsv(rows("b", 20)).encode()))
    (tmp_path / "talks.en").write_text("".join(f"{source}\n" for source, _ in rows("c", 10)))
    (tmp_path / "talks.de").write_text("".join(f"{target}\n" for _, target in rows("c", 10)))
    return tmp_path


def mixed(folder, *entries, **settings):
    mix = tuple(
        ",".join(str(folder / name) for name in names.split(",")) + f":{weight}"
        for names, weight in entries
    )
    return DataConfig(mix=mix, dev_size=0, test_size=0, **settings)


def epoch_of(config, number):
    """Return how often each first word occurs in the sources of an epoch."""
    split = splits.read(config)
    tokenizers = preparation.train_tokenizers(config, split.train)
    made = preparation.encode(config, tokenizers, split.train, 1, model=TranslationModelConfig())
    counts = Counter()
    for batch in made.batches.epoch(number):
        for ids in batch.source.ids[:, 0].tolist():
            counts[tokenizers.source.decode([ids])] += 1
    return counts, made


def test_each_pair_occurs_as_often_as_the_weight_of_its_corpus_says(files):
    config = mixed(files, ("news-*", 1), ("talks.en,talks.de", 3))
    counts, made = epoch_of(config, 1)
    assert counts == {"a": 30, "b": 20, "c": 30}
    assert len(made.batches) == 60
    halved = mixed(files, ("news-1.tsv", 0.5), ("talks.en,talks.de", 1))
    both = [epoch_of(halved, number)[0] for number in (1, 2)]
    assert both[0] + both[1] == {"a": 30, "c": 20}


def test_weights_use_the_same_cache(files):
    first = epoch_of(mixed(files, ("news-*", 1), ("talks.en,talks.de", 3)), 1)[1]
    second = epoch_of(mixed(files, ("news-*", 2), ("talks.en,talks.de", 0.5)), 1)[1]
    assert first.cache_files
    assert not second.cache_files
    assert first.batches.fingerprint() != second.batches.fingerprint()


def test_parquet_files_are_shards_too(files):
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    for number in (1, 2):
        source, target = zip(*rows(f"p{number}", 10), strict=True)
        table = pyarrow.table({"source": source, "target": target})
        pyarrow.parquet.write_table(table, files / f"part-{number}.parquet")
    counts, _ = epoch_of(DataConfig(path=files / "part-*.parquet", dev_size=0, test_size=0), 1)
    assert counts == {"p1": 10, "p2": 10}


def test_a_pattern_names_files_in_the_order_of_their_names(files):
    assert matching_files(CorpusPaths(files / "news-*")) == [
        (files / "news-1.tsv", None),
        (files / "news-2.tsv.gz", None),
    ]
    with pytest.raises(UserError, match=r"no file matches .*none-\*"):
        matching_files(CorpusPaths(files / "none-*"))
    with raises(UserError):
        matching_files(CorpusPaths(files / "news-*", files / "talks.d?"))
    with pytest.raises(UserError, match=r"a\*\* is no pattern of file names: .*; use"):
        matching_files(CorpusPaths(files / "a**"))
    (files / ".news-3.tsv.Ab12").write_text("x\ty\n")  # an incomplete copy of rsync
    assert len(matching_files(CorpusPaths(files / "*news*"))) == 2
    assert len(matching_files(CorpusPaths(files / ".*news*"))) == 1
    (files / "a*b").write_text("x\ty\n")
    assert matching_files(CorpusPaths(files / "a*b")) == [(files / "a*b", None)]


def test_the_files_of_a_recipe_are_beside_it(files):
    recipe = files / "recipe.yaml"
    mix = ["news-*:0.5", "talks.en,talks.de", "gone-*:2", "a**:3", str(files / "news-1.tsv")]
    recipe.write_text(json.dumps({"data": {"mix": mix}}))
    joined = (f"{files}/news-*:0.5", f"{files}/talks.en,{files}/talks.de", *mix[2:])
    assert recipes.load(recipe).data.mix == joined
    recipe.write_text("data: {path: news-*}")
    assert recipes.load(recipe).data.path == files / "news-*"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("a.tsv", CorpusPaths(Path("a.tsv"))),
        ("a.tsv:0.5", CorpusPaths(Path("a.tsv"), None, 0.5)),
        ("a.en,a.de:2", CorpusPaths(Path("a.en"), Path("a.de"), 2.0)),
    ],
)
def test_entries_of_a_mix(entry, expected):
    assert CorpusPaths.parse(entry) == expected


@pytest.mark.parametrize(
    "entry",
    ["", ":1", "a.tsv:", "a.tsv:x", "a:0", "a:-1", "a:nan", "a:inf", "a:1e9", "a,b,c:1", "a,:1"],
)
def test_wrong_entries_are_rejected(entry):
    with pytest.raises(UserError, match=r"data.mix has"):
        DataConfig(mix=(entry,))


def test_a_mix_is_the_only_data(files):
    with pytest.raises(UserError, match=r"data.mix and data.path pairs.tsv both name"):
        DataConfig(mix=("a.tsv",), path=Path("pairs.tsv"))
    with pytest.raises(UserError, match=r"data.mix names no corpus"):
        DataConfig(mix=())
    with pytest.raises(UserError, match="named twice"):
        splits.read(mixed(files, ("news-1.tsv", 1), ("news-*", 1)))


def test_a_file_that_is_no_regular_file_is_rejected(files):
    with raises(UserError):
        splits.read(DataConfig(mix=(f"{files}:1",)))


@pytest.mark.parametrize(
    ("lines", "settings"), [("", {}), ("no tab\n", {}), (f"{'a ' * 9}\tb\n", {"max_length": 7})]
)
def test_a_corpus_without_a_training_pair_is_named(files, lines, settings):
    (files / "empty.tsv").write_text(lines)
    with raises(UserError, "data.mix"):
        epoch_of(mixed(files, ("news-1.tsv", 1), ("empty.tsv", 2), **settings), 1)


def test_data_of_a_call_replace_the_mix_of_a_recipe(files):
    experiment = Experiment(data=mixed(files, ("news-*", 0.5)))
    pairs = rows("a", 9)
    assert experiment_of(pairs, experiment, {})[0].data.mix is None
    data = experiment_of(str(files / "news-1.tsv"), experiment, {})[0].data
    assert (data.path, data.mix) == (files / "news-1.tsv", None)
    assert experiment_of(None, experiment, {"data.mix": ["a:2"]})[0].data.mix == ("a:2",)
    for settings in ({"data.mix": ("a",)}, {"data": {"mix": ["a"]}}):
        with pytest.raises(UserError, match=r"data and the setting data.mix both name"):
            experiment_of(pairs, experiment, settings)


def test_a_training_on_a_mix_can_be_resumed(files, tmp_path):
    data = mixed(files, ("news-*", 0.5), ("talks.en,talks.de", 2), batch_sentences=4)
    experiment = Experiment(
        data=data,
        model=configs.recurrent(size=8, embedding=4),
        training=TrainingConfig(epochs=3, average=None, patience=None),
    )
    whole = train(experiment, tmp_path / "whole")
    part = replace(experiment, training=replace(experiment.training, epochs=1))
    train(part, tmp_path / "part")
    reweighted = replace(data, mix=(data.mix[0], data.mix[1].replace(":2", ":3")))
    with raises(UserError, "data.mix"):
        train(replace(experiment, data=reweighted), tmp_path / "part", resume=True)
    shutil.copytree(files, tmp_path / "moved")
    data = mixed(tmp_path / "moved", ("news-*", 0.5), ("talks.en,talks.de", 2), batch_sentences=4)
    experiment = replace(experiment, data=data)
    end = train(experiment, tmp_path / "part", resume=True)
    assert end.update == whole.update
    files_of = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "part")]
    assert files_of[0] == files_of[1]


def test_a_run_on_a_mix_knows_its_files(files, tmp_path, capsys):
    data = mixed(files, ("news-*", 0.5), ("talks.en,talks.de", 2), batch_sentences=4)
    experiment = Experiment(
        data=replace(data, dev_size=3),
        model=configs.recurrent(size=8, embedding=4),
        training=TrainingConfig(updates=1, average=None, patience=None),
    )
    train(experiment, tmp_path / "run")
    assert Recorded.read(tmp_path / "run").environment.data
    copy = files / "copy.tsv"
    copy.write_bytes((files / "news-1.tsv").read_bytes())
    (files / "some.tsv").write_text(tsv([*rows("a", 30)[:20], *rows("c", 10)]))
    for name in ("news-1.tsv", "copy.tsv"):
        evaluate.run([str(tmp_path / "run"), str(files / name)])
        assert f"run was trained on pairs of {files / name}" in capsys.readouterr().err
    evaluate.run([str(tmp_path / "run"), str(files / "some.tsv")])
    assert re.search(r"was trained on \d+ of these 30 pairs", capsys.readouterr().err)
    copy.rename(files / "news-3.tsv")
    with raises(UserError):
        Recorded.read(tmp_path / "run")
