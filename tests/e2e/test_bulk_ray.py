"""Bulk inference on Ray started on this machine, with two workers."""

import random

from regard.cli.main import run as regard
from regard.cluster.chunk_folder import ChunkFolder
from regard.config import SearchConfig
from regard.inference.captioning import CaptionJob
from regard.inference.loop import Outputs
from regard.inference.parts import Part
from regard.pipeline.train import train
from tests.small_runs import small


def test_two_workers_write_the_output_of_the_plain_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.inference.parts.MIN_BYTES", 1000)
    train(small(), tmp_path / "run")
    drawing = random.Random(1)
    lines = [" ".join(drawing.choices("abcdefgh", k=n % 13)) for n in range(400)]
    (tmp_path / "in.txt").write_text("\n".join([*lines, "a b\tc", "zz", "c " * 900]))
    command = ["translate", "run", "in.txt", "-o"]
    assert regard([*command, "plain"]) == 1
    plain = capsys.readouterr().err
    assert regard([*command, "out", "--cluster", "local", "--workers", "2"]) == 1
    messages = capsys.readouterr().err.splitlines()
    assert messages[:1] == ["starting Ray on this machine: ten seconds or more"]
    assert messages[1].startswith("Ray has started: 2 workers, 0 of ")
    messages = [line for line in messages[2:] if not line.startswith("finished chunks: ")]
    assert messages == plain.splitlines()
    assert (tmp_path / "out").read_bytes() == (tmp_path / "plain").read_bytes()
    assert not (tmp_path / "out.chunks").exists()


def test_a_node_without_the_folder_of_the_chunks_is_named(tmp_path):
    from regard.cluster.bulk_workers import ChunkActor

    outputs = Outputs(tmp_path / "out")
    job = CaptionJob(tmp_path / "gone", ("a.png",), frozenset(), outputs, SearchConfig())
    actor = ChunkActor(job, ChunkFolder(outputs), tmp_path)
    problem = actor._problem(Part(0, 0, 1))
    assert "does not have" in problem
    assert problem.endswith("all nodes need the same folders, as on a shared file system")
