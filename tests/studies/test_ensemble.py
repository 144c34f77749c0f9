"""`regard ensemble`: members, their folder, and the commands that take it."""

import json
import shutil
from pathlib import Path

import pytest

import regard as package
from regard.cli.main import run as regard
from regard.errors import UserError
from regard.runs.ensemble import ENSEMBLE, all_members, folder_of, members_of, save_ensemble
from regard.runs.environment import read_sessions
from regard.runs.folder import RunFolder
from regard.studies.sweep import is_complete
from tests.messages import check_message, raises

TINY = ["copy", "--data.synthetic-size", "100", "--model.size", "8", "--training.updates", "2"]
SEEDS = ["training.seed=7", "training.seed=8"]


def in_this_process(words, job, num_threads, stopped):
    """The command of a job, without a process of its own."""
    return "" if regard(list(words)) == 0 else "failed"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensembles") / "first"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.studies.sweep._run", in_this_process)
        words = ["ensemble", *TINY, "--members", "2", "--training.seed=7", "--workers", "1"]
        assert regard([*words, "-o", str(folder)]) == 0
    return folder


def test_members_differ_in_their_seeds(folder):
    assert json.loads((folder / ENSEMBLE).read_text()) == {"members": SEEDS}
    weights = [(folder / seed / "model.safetensors").read_bytes() for seed in SEEDS]
    assert weights[0] != weights[1]
    splits = [(folder / seed / "test.tsv").read_bytes() for seed in SEEDS]
    assert splits[0] == splits[1]


def test_the_folder_is_the_ensemble_of_its_members(folder):
    moved = shutil.copytree(folder, folder.parent / "moved")
    texts = ["a b c", "d d", "e f a b"]
    expected = package.load(*(folder / seed for seed in SEEDS))
    model = package.load(moved)
    assert "ensemble of 2" in repr(model)
    for ours, theirs in zip(model.translate(texts), expected.translate(texts), strict=True):
        assert (ours.text, ours.score) == (theirs.text, theirs.score)
        assert len(ours.trace.maps("cross")) == 2
    three = package.load(moved, folder / SEEDS[0])
    assert "ensemble of 3" in repr(three)


def test_commands_take_the_folder(folder, tmp_path, capsys):
    pairs, texts = tmp_path / "pairs.tsv", tmp_path / "in.txt"
    pairs.write_text("a b\ta b\n")
    texts.write_text("a b c\n")
    runs = [str(folder / seed) for seed in SEEDS]
    for name, *rest in (
        ["translate", str(texts)],
        ["plot", "a b"],
        ["score", str(pairs)],
        ["evaluate", str(pairs)],
    ):
        outputs = []
        for words in ([str(folder), *rest], [runs[0], *rest, "--ensemble", runs[1]]):
            assert regard([name, *words]) == 0
            outputs.append(capsys.readouterr().out)
        assert outputs[0] == outputs[1]
    entries = json.loads((folder / SEEDS[0] / "results.json").read_text())[str(pairs.resolve())]
    assert [each["ensemble"] for each in entries] == [[str((folder / SEEDS[1]).resolve())]]


def test_members_are_added(folder, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    longer = shutil.copytree(folder, folder.parent / "longer")
    first = (longer / SEEDS[0] / "model.safetensors").stat().st_mtime_ns
    words = ["ensemble", *TINY, "--training.seed=7", "-o", str(longer), "--workers=1"]
    assert regard([*words, "--members=3"]) == 0
    assert (longer / SEEDS[0] / "model.safetensors").stat().st_mtime_ns == first
    assert [path.name for path in members_of(longer)] == [*SEEDS, "training.seed=9"]
    out = capsys.readouterr().out
    assert "regard evaluate" in out
    assert "3 trainings, 2 finished already, 1 at a time, in " in out
    assert out.count("  finished already\n") == 2


def test_a_finished_ensemble_is_not_announced_as_a_training(folder, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    words = ["ensemble", *TINY, "--training.seed=7", "-o", str(folder), "--workers=1"]
    assert regard([*words, "--members=2"]) == 0
    out = capsys.readouterr().out
    assert f"2 trainings, finished already, in {folder}\n" in out
    assert out.count("  finished already\n") == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: (run / "config.yaml").unlink(),
        lambda run: (run / "model.safetensors").unlink(),
        lambda run: (run / "model.safetensors").write_bytes(b"x" * 500),
        lambda run: (run / "source.tokenizer.json").write_text("{}"),
        lambda run: (run / "log.jsonl").write_text("[]\n"),
        lambda run: (run / "log.jsonl").write_text('{"kind": "end"}\n'),
    ],
    ids=["config", "weights", "truncated", "tokenizer", "log", "end"],
)
def test_damaged_members_are_named(damage, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / ENSEMBLE).unlink()
    damage(damaged / SEEDS[1])
    words = ["ensemble", *TINY, "--training.seed=7", "-o", str(damaged), "--workers=1"]
    assert regard([*words, "--members=2"]) == 1
    err = capsys.readouterr().err
    check_message(err)
    if "log" not in err:  # `regard train` names the log and its remedy
        assert f"Or delete {damaged / SEEDS[1]} and repeat the command, which" in err
        assert err.count("\n") == 1
    assert not (damaged / ENSEMBLE).exists()


def test_a_deleted_member_is_trained_again(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    again = shutil.copytree(folder, tmp_path / "again")
    shutil.rmtree(again / SEEDS[1])
    words = ["ensemble", *TINY, "--training.seed=7", "-o", str(again), "--workers=1"]
    assert regard([*words, "--members=2"]) == 0
    weights = [path / SEEDS[1] / "model.safetensors" for path in (again, folder)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_log_with_bytes_that_are_no_text_is_not_complete(folder):
    damaged = shutil.copytree(folder / SEEDS[0], folder.parent / "bytes")
    with (damaged / "log.jsonl").open("ab") as log:
        log.write(b"\xff\xfe\n")
    assert not is_complete(RunFolder(damaged))
    assert (damaged / "environment.json").is_file()
    (damaged / "environment.json").write_text('[{"data": []}]')
    with raises(UserError):
        read_sessions(RunFolder(damaged))


def test_members_have_the_same_data(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    monkeypatch.chdir(tmp_path)
    pairs = Path("pairs.tsv")
    pairs.write_text("".join(f"a{n}\tb{n}\n" for n in range(30)))
    words = ["letters", "pairs.tsv", "--model.size", "8", "--training.updates", "1"]
    words = ["ensemble", *words, "--workers=1", "-o", "both"]
    assert regard([*words, "--members=2"]) == 0
    before, written = pairs.read_text(), Path("both", ENSEMBLE).read_text()
    pairs.write_text(before.replace("a", "c"))
    capsys.readouterr()
    assert regard([*words, "--members=3"]) == 1
    check_message(capsys.readouterr().err)
    assert Path("both", ENSEMBLE).read_text() == written
    Path("both/training.seed=1/results.json").unlink()
    assert regard([*words, "--members=2"]) == 0  # nothing is left to train
    pairs.write_text(before)
    assert regard([*words, "--members=3"]) == 0


def test_a_sweep_over_files_does_not_need_those_of_finished_trainings(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        Path(f"{name}.tsv").write_text("".join(f"{name}{n}\t{n}\n" for n in range(30)))
    words = ["sweep", "letters", "--model.size", "8", "--training.updates", "1", "--workers=1"]
    words += ["-o", "files", "--vary"]
    assert regard([*words, "data.path=a.tsv,b.tsv"]) == 0
    Path("a.tsv").unlink()
    assert regard([*words, "data.path=b.tsv,c.tsv"]) == 0
    Path("b.tsv").write_text("changed\tnow\n" * 30)
    Path("files/data.path=c.tsv/log.jsonl").unlink()
    capsys.readouterr()
    assert regard([*words, "data.path=b.tsv,c.tsv"]) == 1
    check_message(capsys.readouterr().err)


def test_members_of_other_vocabularies_are_refused(folder, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    mixed = shutil.copytree(folder, folder.parent / "mixed")
    shutil.rmtree(mixed / SEEDS[1])
    letters = ["--data.tokenizer", "characters", "--training.seed=8"]
    assert regard(["train", *TINY, *letters, "-o", str(mixed / SEEDS[1])]) == 0
    assert regard(["evaluate", str(mixed / SEEDS[1])]) == 0
    written = (mixed / ENSEMBLE).read_text()
    capsys.readouterr()
    words = ["ensemble", *TINY, "--training.seed=7", "-o", str(mixed), "--workers=1"]
    assert regard([*words, "--members=2"]) == 1
    err = capsys.readouterr().err
    check_message(err)
    assert (mixed / ENSEMBLE).read_text() == written


def test_runs_that_are_no_members_any_more_are_named(folder, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    shorter = shutil.copytree(folder, folder.parent / "shorter")
    shutil.copytree(shorter / SEEDS[1], shorter / "training.seed=9")
    save_ensemble(shorter, [*SEEDS, "training.seed=9"])
    words = ["ensemble", *TINY, "--training.seed=7", "-o", str(shorter), "--workers=1"]
    assert regard([*words, "--members=2"]) == 0
    assert [path.name for path in members_of(shorter)] == SEEDS
    out = capsys.readouterr().out
    assert f"{shorter} also has training.seed=9, which is no member, as --members is 2" in out
    shutil.rmtree(shorter / "training.seed=9")
    assert regard([*words, "--members=2"]) == 0
    assert "no member" not in capsys.readouterr().out


def test_an_ensemble_that_is_not_finished_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", lambda *_: "interrupted")
    unfinished = tmp_path / "new"
    assert regard(["ensemble", *TINY, "--workers", "1", "-o", str(unfinished)]) == 1
    capsys.readouterr()
    for words in (
        ["translate", str(unfinished)],
        ["train", *TINY, "--init-from", str(unfinished), "-o", str(tmp_path / "run")],
        [*("train", *TINY, "--data.tokenizers-path"), str(unfinished), "-o", str(tmp_path / "run")],
    ):
        assert regard(words) == 1
        err = capsys.readouterr().err
        check_message(err)
        assert err.count("\n") == 1
    with raises(UserError):
        RunFolder(tmp_path / "gone").experiment()


def test_the_tokenizers_of_an_ensemble_are_those_of_its_members(folder, tmp_path):
    words = ["train", *TINY, "--data.tokenizers-path", str(folder), "--training.seed", "3"]
    teachers = ["--training.objective", "distillation", "--training.teachers", str(folder)]
    assert regard([*words, *teachers, "-o", str(tmp_path / "student")]) == 0
    for name in ("source.tokenizer.json", "target.tokenizer.json"):
        expected = (folder / SEEDS[0] / name).read_bytes()
        assert (tmp_path / "student" / name).read_bytes() == expected


def test_evaluate_names_the_ensemble(folder, tmp_path, capsys):
    assert regard(["evaluate", str(folder), "--first", "3", "--precision", "int8"]) == 0
    assert "test.tsv, ensemble of 2, int8\n" in capsys.readouterr().out
    assert regard(["evaluate", str(folder / SEEDS[0]), "--first", "3"]) == 0
    assert "test.tsv\n" in capsys.readouterr().out


def test_the_warning_on_training_pairs_names_the_ensemble(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    pairs, folder = tmp_path / "pairs.tsv", tmp_path / "first"
    pairs.write_text("".join(f"a{n}\tb{n}\n" for n in range(30)))
    words = ["letters", str(pairs), "--model.size", "8", "--training.updates", "1"]
    assert regard(["ensemble", *words, "--members=2", "--workers=1", "-o", str(folder)]) == 0
    runs = [str(path) for path in members_of(folder)]
    capsys.readouterr()
    for run in ([str(folder)], [runs[0], "--ensemble", runs[1]]):
        assert regard(["evaluate", run[0], str(pairs), *run[1:]]) == 0
        err = capsys.readouterr().err
        assert f"all runs of {folder} were trained on pairs of {pairs}, so these scores" in err
        assert f"; held-out scores: regard evaluate {folder}\n" in err
    alone = shutil.copytree(runs[0], tmp_path / "alone")
    assert regard(["evaluate", str(alone), str(pairs), "--ensemble", runs[1]]) == 0
    err = capsys.readouterr().err
    assert f"{alone} and {runs[1]} were trained on pairs of {pairs}" in err
    assert f"held-out scores: regard evaluate {alone} --ensemble {runs[1]}\n" in err


def test_an_ensemble_of_runs_is_recognised_by_its_members(folder):
    runs = members_of(folder)
    assert folder_of(runs) == folder
    assert folder_of(runs[::-1]) is None
    assert folder_of(runs[:1]) is None
    assert folder_of([folder / "other", *runs[1:]]) is None


def test_compare_names_the_members_of_an_ensemble(folder, tmp_path, capsys):
    words = ["--training.label-smoothing", "0.1", "--search.beam", "2", "--model.dropout", "0.3"]
    assert regard(["train", *TINY, *words, "-o", str(tmp_path / "run")]) == 0
    copy = shutil.copytree(folder, tmp_path / "ensemble")
    shutil.copytree(copy / SEEDS[0], copy / "training.seed=9")
    (copy / "sweep.json").unlink()
    capsys.readouterr()
    words = [str(copy), str(tmp_path / "run"), "--samples", "20", "--sentences", "1"]
    assert regard(["compare", *words]) == 0
    out = capsys.readouterr().out
    assert f"\n{copy} (2 runs)  BLEU " in out
    assert f"\n{copy} (2 runs): " in out
    assert f"{copy} is an ensemble: its members are compared, not their mean" in out
    assert f"regard evaluate {copy}" in out


def test_an_ensemble_with_a_member_that_failed_is_not_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", lambda *_: "no space left")
    assert regard(["ensemble", *TINY, "--workers", "1", "-o", str(tmp_path / "new")]) == 1
    assert not (tmp_path / "new" / ENSEMBLE).exists()
    assert "training.seed=5 failed: no space left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["copy", "--members", "1"], 1),
        (["copy", "--members", "many"], 1),
        (["copy", "--members"], 2),
        (["copy", "--vary", "training.seed=1,2"], 2),
        (["copy", "--resume"], 2),
        (["--members", "3"], 2),
        (["drinks"], 1),
        (["copy", "--workers"], 2),
    ],
)
def test_mistakes_are_one_line(words, status, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert regard(["ensemble", *words]) == status
    err = capsys.readouterr().err
    check_message(err)
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_lists_the_options(capsys):
    with pytest.raises(SystemExit) as ended:
        regard(["ensemble", "--help"])
    assert ended.value.code == 0
    assert "--members N " in capsys.readouterr().out


def test_a_run_is_its_own_member():
    assert all_members(["one", "two"]) == (Path("one"), Path("two"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "\0", '{"members": []}', '{"members": [1]}', '{"members": 3}'),
        *('{"members": "one"}', '{"members": {"one": 1}}', '{"members": [""]}'),
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_a_damaged_file_is_named(text, tmp_path):
    (tmp_path / ENSEMBLE).write_text(text)
    with pytest.raises(UserError, match=r"ensemble.json is damaged: expected"):
        members_of(tmp_path)


def test_a_missing_member_is_named_with_its_ensemble(tmp_path):
    save_ensemble(tmp_path, ["one", "two"])
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "config.yaml").touch()
    with raises(UserError):
        members_of(tmp_path)
    (tmp_path / "one").rename(tmp_path / "two")
    with pytest.raises(UserError, match=r"names the run one, whose config.yaml is not"):
        members_of(tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "config.yaml").touch()
    assert members_of(tmp_path) == (tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(
    "words",
    [
        ["export", "--to", "onnx", "-o", "exported"],
        ["train", "copy", "--init-from"],
        ["classify"],
        ["caption", "x.png"],
        ["average", "other", "-o", "mean"],
    ],
)
def test_commands_for_one_run_name_the_runs_of_an_ensemble(
    words, folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    place = len(words) if words[-1] == "--init-from" else 1
    assert regard([*words[:place], str(folder), *words[place:]]) == 1
    err = capsys.readouterr().err
    assert f"{folder} is an ensemble: expected a run, such as {folder / SEEDS[0]}" in err
    assert err.count("\n") == 1


def test_a_folder_with_other_files_is_refused(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", lambda *_: pytest.fail("a training began"))
    data = tmp_path / "data"
    data.mkdir()
    (data / "letters.csv").touch()
    for command in (["ensemble", *TINY], ["sweep", *TINY, "--vary", "training.seed=1"]):
        assert regard([*command, "-o", str(data)]) == 1
        captured = capsys.readouterr()
        assert f"{data} is not empty and holds no {command[0]}: name a new folder" in captured.err
        assert captured.err.count("\n") == 1
        assert "training" not in captured.out
    assert [path.name for path in data.iterdir()] == ["letters.csv"]


def test_messages_about_other_arguments_name_the_ensemble(folder, capsys):
    assert regard(["ensemble", *TINY[:-1], "3", "-o", str(folder)]) == 1
    err = capsys.readouterr().err
    assert f"{folder} has the ensemble `copy " in err
    assert "sweep" not in err


def test_an_ensemble_and_a_run_have_folders_of_their_own(folder, tmp_path, capsys):
    assert regard(["train", *TINY, "-o", str(folder)]) == 1
    assert f"{folder} is the folder of an ensemble: name another folder" in capsys.readouterr().err
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").touch()
    assert regard(["ensemble", *TINY, "-o", str(run)]) == 1
    assert f"{run} holds a run: name another folder with -o" in capsys.readouterr().err
    assert [path.name for path in run.iterdir()] == ["config.yaml"]
