"""From a recipe to a run folder, and on from there."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from regard import recipes
from regard.compiled.losses import BLOCKWISE
from regard.config import SearchConfig, TrainingConfig
from regard.errors import UserError
from regard.pipeline.train import settings_of, train
from regard.runs.folder import RunFolder
from regard.tasks.training.objectives import objective_of
from regard.tasks.translation.model import TranslationModel
from regard.training.checkpoint import Checkpoints
from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.objective import NextToken
from regard.training.objectives.r_drop import RDrop
from regard.training.objectives.teacher_forcing import TeacherForcing
from regard.training.schedule import Constant, CosineDecay, InverseSquareRoot, LinearDecay, Plateau
from regard.training.settings import Period, TrainingSettings
from tests.messages import raises
from tests.small_runs import small, smaller


def test_a_run_folder_is_complete(run):
    names = {path.name for path in run.iterdir()}
    assert names >= {
        "config.yaml",
        "model.safetensors",
        "source.tokenizer.json",
        "target.tokenizer.json",
        "log.jsonl",
        "dev.tsv",
        "test.tsv",
        "state",
    }
    assert len((run / "dev.tsv").read_text().splitlines()) == 20
    kinds = [json.loads(line)["kind"] for line in (run / "log.jsonl").read_text().splitlines()]
    assert kinds.count("dev") == 2
    assert kinds[-1] == "end"
    assert not list(run.rglob("*.unfinished"))


def test_a_moved_run_translates_the_same(run, tmp_path):
    before = TranslationModel.load(run).translate("a b c")
    moved = run.rename(tmp_path / "moved")
    after = TranslationModel.load(moved).translate("a b c")
    moved.rename(run)
    assert (after.text, after.score) == (before.text, before.score)


def test_resuming_gives_the_weights_of_an_uninterrupted_run(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(smaller(epochs=2, teacher_forcing=0.5), whole)
    train(smaller(epochs=1, teacher_forcing=0.5), parts)
    train(smaller(epochs=2, teacher_forcing=0.5), parts, resume=True)
    expected = load_file(RunFolder(whole).model)
    resumed = load_file(RunFolder(parts).model)
    assert expected.keys() == resumed.keys()
    assert all((expected[name] == resumed[name]).all() for name in expected)


def test_resuming_continues_bpe_dropout_and_r_drop(tmp_path):
    def regularised(**training):
        experiment = smaller(r_drop=1.0, **training)
        dropped = replace(experiment.data, tokenizer="bpe", bpe_dropout=0.3, vocabulary_size=60)
        return replace(experiment, data=dropped)

    weights = []
    for name, lengths in (("whole", [2]), ("parts", [1, 2])):
        for place, epochs in enumerate(lengths):
            train(regularised(epochs=epochs), tmp_path / name, resume=place > 0)
        weights.append(load_file(RunFolder(tmp_path / name).model))
    whole, parts = weights
    assert all((whole[name] == parts[name]).all() for name in whole)
    lines = map(json.loads, (tmp_path / "parts" / "log.jsonl").read_text().splitlines())
    penalties = [line["penalties"] for line in lines if line["kind"] == "train"]
    assert penalties
    assert all(values["r_drop"] > 0 for values in penalties)


def test_training_seeds_share_their_held_out_pairs(tmp_path):
    folders = [RunFolder(tmp_path / str(seed)) for seed in (1, 2)]
    for seed, folder in enumerate(folders, start=1):
        train(smaller(seed=seed, epochs=1), folder.path)
    first, second = folders
    assert first.dev.read_bytes() == second.dev.read_bytes()
    assert first.test.read_bytes() == second.test.read_bytes()
    assert first.model.read_bytes() != second.model.read_bytes()


def test_a_run_is_not_overwritten_nor_resumed_without_state(run, tmp_path):
    with pytest.raises(UserError, match="holds a run already"):
        train(small(), run)
    with pytest.raises(UserError, match="holds no run to resume"):
        train(small(), tmp_path / "nothing", resume=True)
    with pytest.raises(UserError, match="is not a run"):
        RunFolder(tmp_path).experiment()


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_cannot_be_resumed_is_unchanged(run):
    before, same = contents(run), small(teacher_forcing=0.5)
    changed = replace(same, model=replace(same.model, size=24))
    with pytest.raises(UserError, match=r"model.size was 16 and is 24 now"):
        train(changed, run, resume=True)
    with raises(UserError, "training.learning_rate"):
        train(small(teacher_forcing=0.5, learning_rate=0.5), run, resume=True)
    changed = replace(same, data=replace(same.data, tokenizer="characters"))
    with pytest.raises(UserError, match=r"data.tokenizer was spaces and is characters"):
        train(changed, run, resume=True)
    assert contents(run) == before


def test_a_run_is_not_resumed_on_other_pairs(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"a b {'c ' * n}\tx {'yz'[n % 2]}\n" for n in range(200)))
    experiment = small(epochs=1)
    config = replace(experiment.data, synthetic=None, path=pairs)
    experiment = replace(experiment, data=config)
    train(experiment, tmp_path / "run")
    before = contents(tmp_path / "run")
    moved = pairs.rename(tmp_path / "moved.tsv")
    experiment = replace(experiment, data=replace(config, path=moved))
    moved.write_text(moved.read_text().replace("x ", "v "))
    with pytest.raises(UserError, match="fingerprint of the training data"):
        train(experiment, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == before
    moved.write_text(moved.read_text().replace("v ", "x "))
    train(experiment, tmp_path / "run", resume=True)


def test_a_run_is_not_resumed_on_other_dev_pairs(tmp_path):
    dev = tmp_path / "held.tsv"
    dev.write_text("a b\ta b\n" * 5)
    experiment = small(epochs=1)
    experiment = replace(experiment, data=replace(experiment.data, dev_path=dev))
    train(experiment, tmp_path / "run")
    before = contents(tmp_path / "run")
    dev.write_text("a b\ta b\n" * 4)
    longer = replace(experiment, training=small(epochs=2).training)
    with raises(UserError):
        train(longer, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == before
    dev.write_text("a b\ta b\n" * 5)
    train(longer, tmp_path / "run", resume=True)


def test_a_rejected_training_unlocks_its_folder(tmp_path):
    experiment = small(patience=2)
    none = replace(experiment, data=replace(experiment.data, dev_size=0))
    with raises(UserError, "training.patience"):
        train(none, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(small(epochs=1), tmp_path / "run")
    assert TranslationModel.load(tmp_path / "run").experiment.name == "small"


@pytest.mark.parametrize("name", ["config.yaml", "dev.tsv", "test.tsv", "log.jsonl", "curve.png"])
def test_foreign_files_are_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine\n")
    (tmp_path / "notes.txt").write_text("mine, too\n")
    before = contents(tmp_path)
    with pytest.raises(UserError, match=f"{name}, which training would overwrite"):
        train(small(epochs=1), tmp_path)
    assert contents(tmp_path) == before
    (tmp_path / name).unlink()
    train(small(epochs=1), tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine, too\n"


def test_the_dev_file_of_the_user_is_not_overwritten(tmp_path):
    dev = tmp_path / "dev.tsv"
    dev.write_text("a b\ta b\n" * 5)
    experiment = small(epochs=1)
    experiment = replace(experiment, data=replace(experiment.data, dev_path=dev))
    with pytest.raises(UserError, match=r"dev.tsv, which training would overwrite"):
        train(experiment, tmp_path)
    assert dev.read_text() == "a b\ta b\n" * 5


def test_damaged_weights_are_reported(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(UserError, match=r"model.safetensors cannot be read as weights"):
        TranslationModel.load(copy)
    (copy / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"cannot read .*model.safetensors: no such file"):
        TranslationModel.load(copy)


def test_long_dev_pairs_are_left_out_and_counted(tmp_path):
    pairs = tmp_path / "dev.tsv"
    pairs.write_text("a b\tb a\n" + "a " * 100_000 + "\tb\n" + "b\t" + "a " * 5000 + "\n")
    experiment = smaller(epochs=1)
    data = replace(experiment.data, dev_path=pairs, dev_size=None)
    plans = []
    train(replace(experiment, data=data), tmp_path / "run", begin=plans.append)
    report = "left out 2 dev pairs longer than 5,000 tokens (the limit of scores)"
    assert plans[0].left_out == (report,)
    shorter = replace(experiment, data=data, search=replace(experiment.search, max_source=2))
    with raises(UserError, "search.max_source"):
        train(shorter, tmp_path / "other")


def killed_before_the_first_save(folder, monkeypatch):
    """A run folder as a process leaves it that is killed while it writes the first state."""
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(smaller(epochs=1), folder)


def test_a_run_killed_before_its_first_save_can_be_resumed(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "killed")
    killed_before_the_first_save(folder.path, monkeypatch)
    assert not folder.training_state.exists()
    with raises(UserError):
        train(smaller(epochs=1), folder.path)
    with raises(UserError, "training.learning_rate"):
        train(smaller(epochs=1, learning_rate=0.5), folder.path, resume=True)
    train(smaller(epochs=1), folder.path, resume=True)
    train(smaller(epochs=1), tmp_path / "whole")
    assert folder.model.read_bytes() == RunFolder(tmp_path / "whole").model.read_bytes()


@pytest.mark.parametrize("name", ["dev.tsv", "run.json", "target.tokenizer.json", "state"])
def test_a_run_killed_while_writing_its_first_files_can_be_resumed(tmp_path, monkeypatch, name):
    folder = RunFolder(tmp_path / "killed")
    killed_before_the_first_save(folder.path, monkeypatch)
    path = folder.path / name
    path.rmdir() if path.is_dir() else path.unlink()
    train(smaller(epochs=1), folder.path, resume=True)
    assert TranslationModel.load(folder.path).translate("a b").text


HOLDER = """
import fcntl, os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has these locks")
def test_two_trainings_cannot_share_a_folder(run, tmp_path):
    folder = tmp_path / "new"
    for state, resume in ((run / "state", True), (folder / "state", False)):
        state.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", HOLDER, str(state)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == "locked\n"
            before = contents(state.parent)
            with pytest.raises(UserError, match="is being trained by another process"):
                train(
                    smaller() if state.parent == folder else small(teacher_forcing=0.5),
                    state.parent,
                    resume=resume,
                )
            assert contents(state.parent) == before
            process.kill()
    train(smaller(epochs=1), folder)  # a killed process leaves no lock


def test_a_recipe_without_data_names_the_option(tmp_path):
    with pytest.raises(UserError, match=r"--data.path FILE"):
        train(recipes.load(recipes.find("tatoeba-luong")), tmp_path / "run")


def test_held_out_pairs_after_the_limit_share_no_source(tmp_path):
    lines = [f"w{number} x\ty{number}" for number in range(30)]
    lines[25] = lines[3]
    lines[26] = "W4  x\tz"  # another spelling of line 5's source
    data = tmp_path / "pairs.tsv"
    data.write_text("\n".join(lines))
    experiment = small(epochs=1)
    config = replace(experiment.data, synthetic=None, path=data, limit=10, dev_size=5, test_size=4)
    train(replace(experiment, data=config), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    held_out = [*folder.dev.read_text().splitlines(), *folder.test.read_text().splitlines()]
    assert len(held_out) == 9
    assert not set(held_out) & set(lines[:10])
    assert "W4 x\tz" not in held_out


@pytest.mark.parametrize(("given", "expected"), [(None, 15), (0, 0), (7, 7)])
def test_a_twentieth_is_held_out_by_default(tmp_path, given, expected):
    experiment = small(epochs=1)
    config = replace(experiment.data, dev_size=given, test_size=None)
    train(replace(experiment, data=config), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    dev = folder.dev.read_text().splitlines() if folder.dev.exists() else []
    assert len(dev) == expected
    assert len(folder.test.read_text().splitlines()) == 15


def settings(config, precision):
    return settings_of(config, objective_of(config), precision)


REWARDS = {"objective", "reward", "samples", "likelihood_weight", "sharpness"}
TEACHERS = {"teachers", "teacher_weight", "divergence", "temperature"}
ELSEWHERE = (
    REWARDS | TEACHERS | {"freeze", "metric", "device", "precision", "track", "label_weights"}
)
"""Fields that are no settings of the loop, or that `tests/tasks` tests."""


DEFAULTS = TrainingSettings(objective=NextToken(CrossEntropy(functions=BLOCKWISE)))


def of_optimiser(settings, **changes):
    return replace(settings, optimiser=replace(settings.optimiser, **changes))


def of_objective(settings, **changes):
    return replace(settings, objective=replace(settings.objective, **changes))


ARRIVES = {
    "initial_run": (Path("run"), lambda settings: replace(settings, validate_first=True)),
    "epochs": (7, lambda settings: replace(settings, length=Period(7, "epoch"))),
    "updates": (7, lambda settings: replace(settings, length=Period(7))),
    "accumulate": (3, lambda settings: replace(settings, accumulate=3)),
    "learning_rate": (0.3, lambda settings: of_optimiser(settings, learning_rate=0.3)),
    "schedule": ("cosine", lambda settings: of_optimiser(settings, schedule=CosineDecay())),
    "warmup": (5, lambda settings: of_optimiser(settings, schedule=Constant(5))),
    "adam_betas": ((0.8, 0.98), lambda settings: of_optimiser(settings, betas=(0.8, 0.98))),
    "adam_epsilon": (1e-6, lambda settings: of_optimiser(settings, epsilon=1e-6)),
    "weight_decay": (0.2, lambda settings: of_optimiser(settings, weight_decay=0.2)),
    "clip": (None, lambda settings: of_optimiser(settings, clip=None)),
    "label_smoothing": (
        0.1,
        lambda settings: of_objective(settings, loss=CrossEntropy(0.1, functions=BLOCKWISE)),
    ),
    "loss": (
        "sentence",
        lambda settings: of_objective(settings, loss=CrossEntropy(0.0, "sentence", BLOCKWISE)),
    ),
    "r_drop": (
        2.0,
        lambda settings: replace(settings, objective=RDrop(settings.objective, 2.0)),
    ),
    "teacher_forcing": (
        0.5,
        lambda settings: of_objective(settings, teacher_forcing=TeacherForcing(0.5)),
    ),
    "teacher_forcing_end": (
        0.3,
        lambda settings: of_objective(settings, teacher_forcing=TeacherForcing(1.0, 0.3)),
    ),
    "teacher_forcing_unit": (
        "token",
        lambda settings: of_objective(settings, teacher_forcing=TeacherForcing(by="token")),
    ),
    "patience": (4, lambda settings: replace(settings, patience=4)),
    "sharding": ("full", lambda settings: replace(settings, sharding="full")),
    "hours": (0.5, lambda settings: replace(settings, hours=0.5)),
    "validate_every": (9, lambda settings: replace(settings, validate_every=Period(9))),
    "average": (3, lambda settings: replace(settings, average=3)),
    "log_every": (8, lambda settings: replace(settings, log_every=Period(8))),
    "log_by": ("epoch", lambda settings: replace(settings, log_every=Period(50, "epoch"))),
    "seed": (6, lambda settings: replace(settings, seed=6)),
}


def test_an_empty_recipe_has_the_defaults_of_the_training_loop():
    assert settings(TrainingConfig(), "float32") == DEFAULTS


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_settings_are_the_same_text_in_every_process(r_drop):
    """A resumed run and the processes of a training compare it."""
    assert " at 0x" not in repr(settings(TrainingConfig(r_drop=r_drop), "float32"))


@pytest.mark.parametrize("name", sorted({each.name for each in fields(TrainingConfig)} - ELSEWHERE))
def test_each_training_field_reaches_the_settings(name):
    """And nowhere else."""
    value, expected = ARRIVES[name]
    config = TrainingConfig()
    assert value != getattr(config, name)
    result = settings(replace(config, **{name: value}), "float32")
    assert result == expected(DEFAULTS)


def test_precision_reaches_the_settings():
    result = settings(TrainingConfig(), "bfloat16")
    assert result == replace(DEFAULTS, precision="bfloat16")


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("constant", Constant(5)),
        ("cosine", CosineDecay(5)),
        ("linear", LinearDecay(5)),
        ("inverse_square_root", InverseSquareRoot(5)),
        ("plateau", Plateau(5)),
    ],
)
def test_schedules_are_built_by_name(name, schedule):
    result = settings(TrainingConfig(schedule=name, warmup=5), "float32")
    assert result.optimiser.schedule == schedule


def test_a_recipe_may_set_updates(tmp_path):
    config = TrainingConfig(updates=7, accumulate=2)
    assert train(replace(small(), training=config), tmp_path / "run").update == 7


def test_dev_pairs_are_decoded_greedily_with_any_beam(tmp_path, monkeypatch):
    """All else is the recipe's."""
    searches = []

    def watched(translator, texts, *, search, **how):
        searches.append(search)
        return translate(translator, texts, search=search, **how)

    translate = TranslationModel.translate
    monkeypatch.setattr(TranslationModel, "translate", watched)
    recipes_search = SearchConfig(beam=5, length_penalty=0.7, max_length=9)
    train(replace(smaller(epochs=1), search=recipes_search), tmp_path / "run")
    assert searches == [replace(recipes_search, beam=1, max_ratio=searches[0].max_ratio)]
