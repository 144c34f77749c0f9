"""Shards and chunks of an input: joined, they are the output of the plain command."""

from __future__ import annotations

import json
import pickle
import random
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from regard.cli import main
from regard.cluster.chunk_folder import ChunkFolder
from regard.errors import UserError
from regard.inference.faults import Faults
from regard.inference.loop import Outputs
from regard.inference.loop import run as run_task
from regard.inference.parts import Part
from regard.runtime.signals import TerminatedError
from tests.cli.test_commands import regard
from tests.messages import check_message, raises
from tests.small_runs import RUNS


class InProcess:
    """Workers of a cluster in this process. A worker gets the work as bytes, as on a cluster, and
    the last chunks come first. After `fails_after` chunks, the workers fail."""

    fails_after: int | None = None
    failure: BaseException = UserError("a worker failed")
    num_chunks = 0

    def __init__(self, address, num_workers, num_gpus):
        assert address == "local"

    def run(self, job, folder, chunks, on_started, on_finished):
        on_started(2)
        work = pickle.dumps((job, folder))
        job, folder = pickle.loads(work)
        assert b"regard.cli" not in work
        process = partial(run_task, job.open(lambda _: None))
        for number, part in enumerate(reversed(chunks)):
            if number == InProcess.fails_after:
                raise InProcess.failure
            folder.run(process, part)
            InProcess.num_chunks += 1
            on_finished()


@pytest.fixture
def cluster(monkeypatch):
    """Options of the plain commands for a cluster."""
    module = SimpleNamespace(RayWorkers=InProcess)
    monkeypatch.setitem(sys.modules, "regard.cluster.bulk_workers", module)
    monkeypatch.setattr(InProcess, "fails_after", None)
    monkeypatch.setattr(InProcess, "num_chunks", 0)
    monkeypatch.setattr("regard.cli.progress.FIRST_LINE", 1000)
    monkeypatch.setattr("regard.inference.parts.NUM_CHUNKS", 5)
    monkeypatch.setattr("regard.inference.parts.MIN_BYTES", 101)
    return "--cluster", "local", "--workers", 2


RUN = RUNS / "bahdanau"
PROGRESS = "starting Ray", "Ray has started", "finished chunks: "
"""Beginnings of the lines about the progress of a cluster."""
SHORT = "--max-length", 9
"""Options of short outputs: a model that has learned little ends none."""
LINES = [
    *("", "a b\tc", "zz yy", " ".join(["c"] * 500), "d \0 e", " f ", "\ufeffg", "h\r"),
    *(" ".join("abcdefghijklmnop"[i % 16] for i in range(n % 11)) for n in range(45)),
    "last",
]


TABLE = "n;source;remark\n" + "".join(
    f'{n};{" ".join("abcdefg"[: n % 7])};"a; {n}\nb"\n' for n in range(23)
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working folder, with an input of each command that is read in several parts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.inference.tables.ROWS_AT_A_TIME", 4)
    monkeypatch.setattr("regard.inference.scoring.PAIRS_AT_A_TIME", 7)
    monkeypatch.setattr("regard.tasks.captioning.model.IMAGES_AT_A_TIME", 2)
    content = "\n".join(LINES).encode().replace(b"a b c d", b"\xff a b c d")
    Path("in.txt").write_bytes(content)
    Path("table.csv").write_text(f"{TABLE}23;a b;c;d\n")
    drawing = random.Random(1)
    sides = [" ".join(drawing.choices("abcdef", k=n % 9 + 1)) for n in range(60)]
    pairs = [f"{first}\t{second}" for first, second in zip(sides, reversed(sides), strict=True)]
    pairs[17:17] = ["no tab", "", f"a\t{'b ' * 6000}"]
    Path("pairs.tsv").write_text("\n".join(pairs))
    Path("images").mkdir()
    for number in range(5):
        Image.new("RGB", (9, 7), (40 * number, 9, 99)).save(f"images/{number}.png")
    Path("images/3.png").write_text("no image")
    return tmp_path


def outputs(capsys, command, run, inputs, folder, *options, suffix=".txt"):
    """Status, contents of the files and messages of a command."""
    folder.mkdir(exist_ok=True)
    files = folder / f"out{suffix}", folder / "trace"
    inputs = inputs if isinstance(inputs, list) else [inputs]
    words = (*inputs, "-o", files[0], "--trace", files[1], *options)
    status, out, err = regard(capsys, command, run, *words)
    assert out == ""
    assert sorted(folder.iterdir()) == sorted(files), err
    messages = [line for line in err.splitlines() if not line.startswith(PROGRESS)]
    return status, [file.read_bytes() for file in files], "\n".join(messages)


def check_traces(content, expected):
    """Traces are equal up to the rounding of batches of other sizes."""
    lines, expected = content.splitlines(), expected.splitlines()
    assert len(lines) == len(expected)
    for line, other in zip(lines, expected, strict=True):
        (texts, numbers), (other_texts, other_numbers) = flat(line), flat(other)
        assert texts == other_texts
        assert numbers == pytest.approx(other_numbers, rel=1e-5, abs=1e-6)


def flat(line):
    """Texts of a trace, and its fractions."""
    numbers = []

    def number(text):
        numbers.append(float(text))
        return "number"

    return json.loads(line, parse_float=number), numbers


@pytest.mark.parametrize(
    ("line", "suffix", "num_lines", "messages"),
    [
        (
            "translate bahdanau in.txt --encoding utf-8 --nbest 2 --beam 2 --max-length 9",
            *(".txt", 100),
            ["line 2 has a tab", "not in UTF-8 (lines 13", "NUL", "of more than", "unknown"],
        ),
        ("translate bahdanau table.csv --max-length 9", ".csv", 48, ["no source", "more cells"]),
        ("translate bahdanau table.csv --max-length 9", ".txt", 24, ["no source", "more cells"]),
        ("classify classifier in.txt --encoding utf-8 --probabilities", ".txt", 54, ["NUL"]),
        ("classify classifier table.csv", ".csv", 48, ["no source", "more cells"]),
        ("score bahdanau pairs.tsv", ".txt", 61, ["left out 2 lines"]),
        ("caption captioner images --max-length 9", ".txt", 4, ["left out 1 image"]),
    ],
)
def test_parts_and_chunks_have_the_output_of_the_whole_input(
    capsys, cluster, here, line, suffix, num_lines, messages
):
    """Their exit status and messages are equal too."""
    command, run, name, *options = line.split()

    def written(folder, *more):
        words = command, RUNS / run, name, here / folder, *options, *more
        return outputs(capsys, *words, suffix=suffix)

    plain = written("plain")
    shards = [written(f"shard{number}", "--shard", f"{number}/3") for number in (1, 2, 3)]
    joined = [b"".join(texts) for texts in zip(*(files for _, files, _ in shards), strict=True)]
    assert joined[0] == plain[1][0]
    check_traces(joined[1], plain[1][1])
    assert max(status for status, _, _ in shards) == plain[0]
    assert all(files[0] for _, files, _ in shards)
    chunks = written("chunks", *cluster)
    assert (chunks[0], chunks[1][0], chunks[2]) == (plain[0], plain[1][0], plain[2])
    check_traces(chunks[1][1], plain[1][1])
    assert InProcess.num_chunks > 2
    assert plain[1][0].count(b"\n") == num_lines
    assert [message for message in messages if message not in plain[2]] == []


def test_scores_do_not_depend_on_the_batch(here, capsys):
    _, printed, _ = regard(capsys, "score", RUN, "pairs.tsv")
    regard(capsys, "score", RUN, "pairs.tsv", "-o", "scores", "--trace", "traces")
    for line, other in zip(
        printed.splitlines(), Path("scores").read_text().splitlines(), strict=True
    ):
        score, other_score = (float(text.partition("\t")[0]) for text in (line, other))
        assert score == pytest.approx(other_score, abs=2e-4, nan_ok=True)


def test_chunks_of_a_file_in_two_encodings_are_read_as_the_whole_file(tmp_path, capsys, cluster):
    path = tmp_path / "in.txt"
    path.write_bytes("café a b\nstraße b\n".encode("latin-1") * 9 + "café b\n".encode() * 2)
    plain = outputs(capsys, "translate", RUN, path, tmp_path / "plain", *SHORT)
    assert outputs(capsys, "translate", RUN, path, tmp_path / "chunks", *SHORT, *cluster) == plain
    assert "read as cp1252" in plain[2]


def rows_of(path):
    from pyarrow import parquet

    table = parquet.read_table(path)
    return table.schema, table.to_pylist()


def test_parquet_tables_keep_their_types(here, tmp_path, capsys, cluster, monkeypatch):
    import pyarrow
    from pyarrow import parquet

    monkeypatch.setattr("regard.inference.tables.ROWS_AT_A_TIME", 4)
    monkeypatch.setattr("regard.data.files.parquet_output.ROWS_AT_A_TIME", 3)
    sources = [None if n % 6 == 0 else " ".join("abcdefg"[: n % 6]) for n in range(23)]
    columns = {"source": sources, "n": [None, *range(22)], "at": [{"x": n / 2} for n in range(23)]}
    table = pyarrow.table(columns)
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=5)
    words = "translate", RUN, tmp_path / "in.parquet", *SHORT, "-o"
    assert regard(capsys, *words, tmp_path / "plain.csv")[0] == 0
    lines = [line.rpartition(",")[2] for line in (tmp_path / "plain.csv").read_text().splitlines()]
    assert regard(capsys, *words, tmp_path / "plain.parquet")[0] == 0
    schema, rows = rows_of(tmp_path / "plain.parquet")
    assert schema == table.schema.append(pyarrow.field("prediction", pyarrow.string()))
    assert [row.pop("prediction") for row in rows] == lines[1:]
    assert rows == table.to_pylist()

    assert regard(capsys, *words, tmp_path / "chunks.parquet", *cluster)[0] == 0
    assert rows_of(tmp_path / "chunks.parquet") == rows_of(tmp_path / "plain.parquet")
    joined = []
    for number in (1, 2, 3):
        shard = tmp_path / f"{number}.parquet"
        assert regard(capsys, *words, shard, "--shard", f"{number}/3")[0] == 0
        joined += rows_of(shard)[1]
    assert joined == rows_of(tmp_path / "plain.parquet")[1]


def test_rows_of_texts_are_written_as_parquet(here, tmp_path, capsys):
    table, output = tmp_path / "table.csv", tmp_path / "out.parquet"
    table.write_text("source,n\na b,1\n,2\nc\n")
    assert regard(capsys, "translate", RUN, table, "-o", output)[0] == 0
    plain = regard(capsys, "translate", RUN, table)[1].splitlines()
    expected = [("a b", "1", plain[0]), ("", "2", ""), ("c", "", plain[2])]
    assert [tuple(row.values()) for row in rows_of(output)[1]] == expected
    table.write_text("source,n\na b,1,more\n")
    status, _, err = regard(capsys, "translate", RUN, table, "-o", output)
    assert (status, "1 of 1 rows below have more" in err) == (1, True)
    assert len(rows_of(output)[1]) == 3


def test_probabilities_are_numbers_in_parquet(here, tmp_path, capsys, cluster):
    import pyarrow

    table = tmp_path / "table.csv"
    table.write_text("text,n\nso who,1\n,2\nso where,3\n")
    command = (
        "classify",
        RUNS / "classifier",
        table,
        "--probabilities",
        "--source-column",
        "text",
        "-o",
    )
    assert regard(capsys, *command, tmp_path / "out.csv")[0] == 0
    assert regard(capsys, *command, tmp_path / "out.parquet")[0] == 0
    schema, rows = rows_of(tmp_path / "out.parquet")
    assert schema.names[2:4] == ["prediction", "probability"]
    assert schema.types == [*[pyarrow.string()] * 3, *[pyarrow.float64()] * 4]
    _, *lines = (tmp_path / "out.csv").read_text().splitlines()
    expected = [[float(cell) if cell else None for cell in line.split(",")[3:]] for line in lines]
    assert [list(row.values())[3:] for row in rows] == expected
    assert expected[1] == [None] * 4
    assert regard(capsys, *command, tmp_path / "chunks.parquet", *cluster)[0] == 0
    assert rows_of(tmp_path / "chunks.parquet") == (schema, rows)


def test_a_predicted_number_is_a_number_in_parquet(tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_text('text;n\n"0.1,0 0.5,1";1\n;2\n')
    output = tmp_path / "out.parquet"
    assert regard(capsys, "classify", RUNS / "series", table, "-o", output)[0] == 0
    first, blank = rows_of(output)[1]
    assert isinstance(first["prediction"], float)
    assert blank["prediction"] is None


def test_an_empty_file_has_an_empty_output(here, tmp_path, capsys, cluster):
    (tmp_path / "in.txt").write_text("")
    for options in ((), ("--shard", "2/2"), cluster):
        result = outputs(
            capsys, "translate", RUN, tmp_path / "in.txt", tmp_path / f"of{len(options)}", *options
        )
        assert result == (0, [b"", b""], "")


def test_a_restart_continues_after_the_finished_chunks(
    here, tmp_path, capsys, cluster, monkeypatch
):
    path, folder = Path("in.txt"), tmp_path / "out.txt.chunks"
    content = path.read_bytes()
    words = ("translate", RUN, path, "-o", tmp_path / "out.txt", "--encoding", "utf-8", *SHORT)
    words += cluster
    monkeypatch.setattr(InProcess, "fails_after", 2)
    status, _, err = regard(capsys, *words)
    assert (status, "a worker failed" in err, folder.is_dir()) == (1, True, True)
    assert not (tmp_path / "out.txt").exists()
    (folder / f"a.{'0' * 32}.unfinished").write_text("of a killed worker")
    (damaged, *_) = sorted(folder.glob("00*.0.txt"))
    damaged.write_text("cut")  # its size is no longer that of its record

    status, _, err = regard(capsys, *words, "--beam", 3)
    assert (status, folder.is_dir()) == (1, True)
    check_message(err)
    path.write_bytes(content + b"\nmore")
    status, _, err = regard(capsys, *words)
    assert (status, "other settings (input)" in err) == (1, True)
    path.write_bytes(content)
    monkeypatch.setattr(InProcess, "fails_after", None)
    status, _, err = regard(capsys, *words, "--workers", 1)
    assert "1 of " in err
    assert not folder.exists()
    plain = tmp_path / "plain.txt"
    regard(capsys, "translate", RUN, path, "-o", plain, "--encoding", "utf-8", *SHORT)
    assert (tmp_path / "out.txt").read_bytes() == plain.read_bytes()


def test_the_start_and_the_finished_chunks_are_printed(
    here, tmp_path, capsys, cluster, monkeypatch
):
    monkeypatch.setattr("regard.cli.progress.FIRST_LINE", 0)
    words = "translate", RUN, "in.txt", "-o", tmp_path / "out", *SHORT, *cluster
    status, _, err = regard(capsys, *words)
    first, second, third, *_ = err.splitlines()
    assert (status, first) == (1, "starting Ray on this machine: ten seconds or more")
    check_message(second)
    assert third == "finished chunks: 0 of 3"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TerminatedError(143)])
def test_a_stop_counts_the_saved_chunks(here, tmp_path, capsys, cluster, monkeypatch, error):
    words = "translate", RUN, "in.txt", "-o", tmp_path / "out", *SHORT, *cluster
    monkeypatch.setattr(InProcess, "failure", error)
    for number, line in (
        (0, "no chunk of 3 is finished: the repeated command begins with the first\n"),
        (2, f"saved 2 of 3 chunks in {tmp_path / 'out.chunks'}: repeat the command to continue\n"),
    ):
        monkeypatch.setattr(InProcess, "fails_after", number)
        with suppress(KeyboardInterrupt, TerminatedError):
            main.run([str(word) for word in words])
        assert line in capsys.readouterr().err


def test_a_folder_with_other_files_is_refused(here, tmp_path, capsys, cluster):
    (tmp_path / "out.chunks").mkdir()
    (tmp_path / "out.chunks" / "mine").write_text("")
    status, _, err = regard(capsys, "translate", RUN, "in.txt", "-o", tmp_path / "out", *cluster)
    assert (status, "has other files: move it" in err) == (1, True)


def test_two_commands_cannot_write_the_same_output(tmp_path):
    folder = ChunkFolder(Outputs(tmp_path / "out"))
    with folder.locked(), pytest.raises(UserError, match="another process"), folder.locked():
        pass


def test_a_missing_chunk_is_reported(tmp_path):
    folder = ChunkFolder(Outputs(tmp_path / "out"))
    with folder.locked():
        folder, chunks = folder.prepare({}, lambda: [Part(0, 0, 3)])
        with pytest.raises(UserError, match="lacks 1 of 1 chunks"):
            folder.join(chunks)


def test_settings_may_change_before_the_first_chunk(tmp_path):
    def process(part, outputs):
        outputs.texts.write_text("text")
        return Faults()

    folder = ChunkFolder(Outputs(tmp_path / "out"))
    with folder.locked():
        older, (part,) = folder.prepare({"beam": 1}, lambda: [Part(0, 0, 3)])
        newer, _ = folder.prepare({"beam": 2}, lambda: [part])
        older.run(process, part)  # a worker that still runs
        assert not newer.is_finished(part)
        newer.run(process, part)
        with pytest.raises(UserError, match=r"other settings \(beam\)"):
            folder.prepare({"beam": 1}, lambda: [part])


def test_a_chunk_that_ends_its_workers_is_reported(tmp_path):
    def process(part, outputs):
        raise KeyboardInterrupt

    folder = ChunkFolder(Outputs(tmp_path / "out"))
    with folder.locked():
        folder, (part,) = folder.prepare({}, lambda: [Part(3, 0, 3)])
        for _ in range(4):
            with pytest.raises(KeyboardInterrupt):
                folder.run(process, part)
        with raises(UserError):
            folder.run(process, part)
        folder.prepare({}, lambda: [part])  # a repeated command tries again
        with pytest.raises(KeyboardInterrupt):
            folder.run(process, part)


def test_a_damaged_manifest_is_one_line(tmp_path):
    folder = ChunkFolder(Outputs(tmp_path / "out"))
    with folder.locked():
        folder.prepare({}, lambda: [Part(0, 0, 3)])
        (folder.path / "manifest.json").write_text("{")
        with pytest.raises(UserError, match="is damaged: remove the folder"):
            folder.prepare({}, list)


def test_a_missing_ray_is_named_with_its_remedy(here, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "regard.cluster.bulk_workers", raising=False)
    words = "-o", tmp_path / "out", "--cluster", "local"
    status, _, err = regard(capsys, "translate", RUN, "in.txt", *words)
    assert status == 1
    assert "pip install 'ray[data]'" in err
    assert not (tmp_path / "out.chunks").exists()
