"""A disk that is full in the middle of any file: one line, and the files from before stay whole.

A limit on the size of files stands for the disk, so that these tests need no rights: a file can be
written up to the limit and no further."""

import errno
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
from safetensors.numpy import load_file

from regard.cli import main
from regard.data.images.array_file import ArrayFile
from regard.errors import UserError
from regard.pipeline.load import load
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from tests.messages import raises
from tests.pipeline.test_damaged_runs import tiny

resource = pytest.importorskip("resource", reason="only POSIX limits the size of files")


@contextmanager
def files_up_to(size):
    """No file can grow beyond this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("full") / "run"
    train(tiny(), folder)
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", [0, 40, 300, 2000, 5000, 20_000])
def test_training_on_a_full_disk_stops_with_one_line(tmp_path, size):
    """The limits end in the middle of the configuration, of the vocabularies, of the log, of the
    weights and of the state."""
    folder = RunFolder(tmp_path / "run")
    with files_up_to(size), pytest.raises(UserError) as error:
        train(tiny(), folder.path)
    assert "\n" not in str(error.value)
    assert f"cannot write {folder.path}" in str(error.value)
    assert not list(tmp_path.rglob("*.unfinished"))
    train(tiny(), folder.path, resume=folder.config.exists())  # and there is room again
    assert load(folder.path).translate("a b").source == "a b"


@pytest.mark.parametrize("size", [0, 2000])
def test_resuming_on_a_full_disk_leaves_the_run_unchanged(finished, tmp_path, size):
    folder = shutil.copytree(finished, tmp_path / "run")
    with files_up_to(size), pytest.raises(UserError, match="cannot write"):
        train(tiny(epochs=2), folder, resume=True)
    assert (folder / "model.safetensors").read_bytes() == (
        finished / "model.safetensors"
    ).read_bytes()
    train(tiny(epochs=2), folder, resume=True)
    train(tiny(epochs=2), tmp_path / "whole")
    ours, theirs = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "whole"))
    assert all((ours[name] == theirs[name]).all() for name in theirs)


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "RUN", "IN", "-o", "OUT.txt"),
        ("translate", "RUN", "IN", "-o", "OUT.txt", "--trace", "OUT.jsonl"),
        ("score", "RUN", "PAIRS", "--trace", "OUT.jsonl"),
        ("plot", "RUN", "a b", "-o", "OUT.png"),
        ("plot", "RUN", "a b", "-o", "OUT.svg"),
        ("plot", "RUN", "a b", "-o", "OUT.json"),
        ("plot", "RUN", "a b", "-o", "OUT.npz"),
        ("evaluate", "RUN"),
        ("data", "copy", "-o", "OUT.tsv"),
        ("data", "shapes", "--size", "2", "-o", "OUT"),
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_commands_on_a_full_disk_stop_with_one_line(finished, tmp_path, capsys, arguments):
    run = shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "in.txt").write_text("a b\nc\n" * 50)
    names = {"RUN": str(run), "IN": str(tmp_path / "in.txt"), "PAIRS": str(run / "test.tsv")}
    outputs = tmp_path / "out"
    outputs.mkdir()
    words = [names.get(word, word).replace("OUT", str(outputs / "x")) for word in arguments]
    before = contents(run)
    with files_up_to(60):
        assert main.run(words) == 1
    errors = capsys.readouterr().err.strip().splitlines()
    assert errors[-1].startswith(f"regard {arguments[0]}: cannot write ")
    assert contents(run) == before
    assert not [path for path in outputs.rglob("*") if path.is_file()]


def test_an_array_larger_than_the_disk_is_rejected_before_it_is_mapped(tmp_path, monkeypatch):
    """A write to a mapped file without room on the disk would kill the process."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with raises(UserError):
        ArrayFile(5, (3,), np.dtype(np.uint8), tmp_path / "rows")
    assert not list(tmp_path.glob("*.npy"))
