"""Shards and chunks of an input: joined, they are the output of the plain command."""

from __future__ import annotations

import json
import pickle
import random
import sys
from contextlib import suppress
from functools import partial
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
from regard.pipeline.train import train
from regard.runtime.signals import TerminatedError
from tests.cli.test_commands import regard
from tests.small_runs import RUNS, smaller


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
    monkeypatch.setattr("regard.inference.parts.NUM_CHUNKS", 5)
    monkeypatch.setattr("regard.inference.parts.MIN_BYTES", 101)
    return "--cluster", "local", "--workers", 2


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small"
    train(smaller(epochs=1), folder)
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    rows = [f"{label}\tso {word} it{n}" for n in range(12) for word, label in WORDS]
    (folder / "train.tsv").write_text("\n".join(rows))
    options = ["labels", str(folder / "train.tsv"), "--model.size", "8", "--data.dev-size", "4"]
    options += ["--data.test-size", "0", "--training.epochs", "1", "-o", str(folder / "run")]
    assert main.run(["train", *options]) == 0
    return folder / "run"


WORDS = ("who", "person"), ("where", "place")
PROGRESS = "starting Ray", "Ray has started", "finished chunks: "
"""Beginnings of the lines about the progress of a cluster."""
SHORT = "--max-length", 9
"""Options of short outputs: a model that has learned little ends none."""
LINES = [
    *("", "a b\tc", "zz yy", " ".join(["c"] * 500), "d \0 e", " f ", "\ufeffg", "h\r"),
    *(" ".join("abcdefghijklmnop"[i % 16] for i in range(n % 11)) for n in range(45)),
    "last",
]


def text_file(folder):
    path = folder / "in.txt"
    path.write_bytes("\n".join(LINES).encode().replace(b"a b c d", b"\xff a b c d"))
    return path


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


def check_parts_and_chunks(
    capsys, cluster, tmp_path, command, run, inputs, *options, suffix=".txt"
):
    """Shards and chunks have the plain output, exit status and messages."""
    plain = outputs(capsys, command, run, inputs, tmp_path / "plain", *options, suffix=suffix)
    shards = [
        outputs(
            *(capsys, command, run, inputs, tmp_path / f"shard{number}", *options),
            *("--shard", f"{number}/3"),
            suffix=suffix,
        )
        for number in (1, 2, 3)
    ]
    joined = [
        b"".join(contents) for contents in zip(*(files for _, files, _ in shards), strict=True)
    ]
    assert joined[0] == plain[1][0]
    check_traces(joined[1], plain[1][1])
    assert max(status for status, _, _ in shards) == plain[0]
    assert all(files[0] for _, files, _ in shards)
    chunks = outputs(
        capsys, command, run, inputs, tmp_path / "chunks", *options, *cluster, suffix=suffix
    )
    assert (chunks[0], chunks[1][0], chunks[2]) == (plain[0], plain[1][0], plain[2])
    check_traces(chunks[1][1], plain[1][1])
    assert InProcess.num_chunks > 2
    return plain


def test_translations_of_lines(run, tmp_path, capsys, cluster):
    options = "--encoding", "utf-8", "--nbest", 2, "--beam", 2, *SHORT
    plain = check_parts_and_chunks(
        capsys, cluster, tmp_path, "translate", run, text_file(tmp_path), *options
    )
    assert plain[0] == 1  # a line is too long
    assert plain[1][0].count(b"\n") > len(LINES)
    for words in ("line 2 has a tab", "not in UTF-8 (lines 13", "NUL", "of more than", "unknown"):
        assert words in plain[2]


def test_chunks_of_a_file_in_two_encodings_are_read_as_the_whole_file(
    run, tmp_path, capsys, cluster
):
    path = tmp_path / "in.txt"
    path.write_bytes("café a b\nstraße b\n".encode("latin-1") * 9 + "café b\n".encode() * 2)
    plain = outputs(capsys, "translate", run, path, tmp_path / "plain", *SHORT)
    assert outputs(capsys, "translate", run, path, tmp_path / "chunks", *SHORT, *cluster) == plain
    assert "read as cp1252" in plain[2]


TABLE = "n;source;remark\n" + "".join(
    f'{n};{" ".join("abcdefg"[: n % 7])};"a; {n}\nb"\n' for n in range(23)
)


@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_translations_of_rows(run, tmp_path, capsys, cluster, monkeypatch, suffix):
    monkeypatch.setattr("regard.inference.tables.ROWS_AT_A_TIME", 4)
    table = tmp_path / "table.csv"
    table.write_text(TABLE + "23;a b;c;d\n")
    options = "translate", run, table
    plain = check_parts_and_chunks(capsys, cluster, tmp_path, *options, *SHORT, suffix=suffix)
    assert "no source" in plain[2]
    assert "more cells than the table has columns" in plain[2]


def rows_of(path):
    from pyarrow import parquet

    table = parquet.read_table(path)
    return table.schema, table.to_pylist()


def test_parquet_tables_keep_their_types(run, tmp_path, capsys, cluster, monkeypatch):
    import pyarrow
    from pyarrow import parquet

    monkeypatch.setattr("regard.inference.tables.ROWS_AT_A_TIME", 4)
    monkeypatch.setattr("regard.data.files.parquet_output.ROWS_AT_A_TIME", 3)
    sources = [None if n % 6 == 0 else " ".join("abcdefg"[: n % 6]) for n in range(23)]
    columns = {"source": sources, "n": [None, *range(22)], "at": [{"x": n / 2} for n in range(23)]}
    table = pyarrow.table(columns)
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=5)
    words = "translate", run, tmp_path / "in.parquet", *SHORT, "-o"
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


def test_rows_of_texts_are_written_as_parquet(run, tmp_path, capsys):
    table, output = tmp_path / "table.csv", tmp_path / "out.parquet"
    table.write_text("source,n\na b,1\n,2\nc\n")
    assert regard(capsys, "translate", run, table, "-o", output)[0] == 0
    plain = regard(capsys, "translate", run, table)[1].splitlines()
    expected = [("a b", "1", plain[0]), ("", "2", ""), ("c", "", plain[2])]
    assert [tuple(row.values()) for row in rows_of(output)[1]] == expected
    table.write_text("source,n\na b,1,more\n")
    status, _, err = regard(capsys, "translate", run, table, "-o", output)
    assert (status, "1 of 1 rows below have more" in err) == (1, True)
    assert len(rows_of(output)[1]) == 3


def test_classes_of_lines(classifier, tmp_path, capsys, cluster):
    check_parts_and_chunks(
        *(capsys, cluster, tmp_path, "classify", classifier, text_file(tmp_path)),
        *("--encoding", "utf-8", "--probabilities"),
    )


def test_classes_of_rows(classifier, tmp_path, capsys, cluster, monkeypatch):
    monkeypatch.setattr("regard.inference.tables.ROWS_AT_A_TIME", 4)
    table = tmp_path / "table.csv"
    table.write_text(TABLE)
    check_parts_and_chunks(capsys, cluster, tmp_path, "classify", classifier, table, suffix=".csv")


def test_probabilities_are_numbers_in_parquet(classifier, tmp_path, capsys, cluster):
    import pyarrow

    table = tmp_path / "table.csv"
    table.write_text("text,n\nso who,1\n,2\nso where,3\n")
    command = "classify", classifier, table, "--probabilities", "--source-column", "text", "-o"
    assert regard(capsys, *command, tmp_path / "out.csv")[0] == 0
    assert regard(capsys, *command, tmp_path / "out.parquet")[0] == 0
    schema, rows = rows_of(tmp_path / "out.parquet")
    assert schema.names[2:4] == ["prediction", "probability"]
    assert schema.types == [*[pyarrow.string()] * 3, *[pyarrow.float64()] * 3]
    _, *lines = (tmp_path / "out.csv").read_text().splitlines()
    expected = [[float(cell) if cell else None for cell in line.split(",")[3:]] for line in lines]
    assert [list(row.values())[3:] for row in rows] == expected
    assert expected[1] == [None] * 3
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


def test_scores_of_pairs(run, tmp_path, capsys, cluster, monkeypatch):
    monkeypatch.setattr("regard.inference.scoring.PAIRS_AT_A_TIME", 7)
    drawing, path = random.Random(1), tmp_path / "pairs.tsv"
    sides = [" ".join(drawing.choices("abcdef", k=n % 9 + 1)) for n in range(60)]
    lines = [f"{first}\t{second}" for first, second in zip(sides, reversed(sides), strict=True)]
    lines[17:17] = ["no tab", "", f"a\t{'b ' * 6000}"]
    path.write_text("\n".join(lines))
    plain = check_parts_and_chunks(capsys, cluster, tmp_path, "score", run, path)
    assert plain[0] == 1
    assert plain[1][0].count(b"\n") == 61
    assert "left out 2 lines" in plain[2]
    scores = [
        _scored(text) for text in (regard(capsys, "score", run, path)[1], plain[1][0].decode())
    ]
    assert scores[0] == [
        (pytest.approx(score, abs=2e-4, nan_ok=True), text) for score, text in scores[1]
    ]


def _scored(text):
    """Score and text of each line. Scores of other batches are equal to rounding."""
    lines = [line.partition("\t") for line in text.splitlines()]
    return [(float(score or "nan"), rest) for score, _, rest in lines]


def test_captions_of_images(tmp_path, capsys, cluster, monkeypatch):
    from tests.cli.inference.test_caption import SCENE, SMALL

    assert regard(capsys, "train", "shapes-caption", "-o", tmp_path / "run", *SMALL)[0] == 0
    monkeypatch.setattr("regard.tasks.captioning.model.IMAGES_AT_A_TIME", 2)
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(5):
        Image.new("RGB", (9, 7), (40 * number, 9, 99)).save(folder / f"{number}.png")
    (folder / "3.png").write_text("no image")
    (tmp_path / "bad.png").write_text("no image")
    inputs = [folder, SCENE, tmp_path / "bad.png"]
    run = tmp_path / "run"
    plain = check_parts_and_chunks(capsys, cluster, tmp_path, "caption", run, inputs)
    assert plain[0] == 1
    assert plain[1][0].count(b"\n") == 5
    assert "left out 1 image" in plain[2]


def test_an_empty_file_has_an_empty_output(run, tmp_path, capsys, cluster):
    (tmp_path / "in.txt").write_text("")
    for options in ((), ("--shard", "2/2"), cluster):
        result = outputs(
            capsys, "translate", run, tmp_path / "in.txt", tmp_path / f"of{len(options)}", *options
        )
        assert result == (0, [b"", b""], "")


def test_a_restart_continues_after_the_finished_chunks(run, tmp_path, capsys, cluster, monkeypatch):
    path, folder = text_file(tmp_path), tmp_path / "out.txt.chunks"
    words = ("translate", run, path, "-o", tmp_path / "out.txt", "--encoding", "utf-8", *SHORT)
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
    assert "has chunks of a command with other settings (beam): repeat that command" in err
    path.write_bytes(path.read_bytes() + b"\nmore")
    status, _, err = regard(capsys, *words)
    assert (status, "other settings (input)" in err) == (1, True)
    text_file(tmp_path)
    monkeypatch.setattr(InProcess, "fails_after", None)
    status, _, err = regard(capsys, *words, "--workers", 1)
    assert "1 of " in err
    assert not folder.exists()
    plain = tmp_path / "plain.txt"
    regard(capsys, "translate", run, path, "-o", plain, "--encoding", "utf-8", *SHORT)
    assert (tmp_path / "out.txt").read_bytes() == plain.read_bytes()


def test_the_start_and_the_finished_chunks_are_printed(run, tmp_path, capsys, cluster, monkeypatch):
    monkeypatch.setattr("regard.cli.progress.FIRST_LINE", 0)
    words = "translate", run, text_file(tmp_path), "-o", tmp_path / "out", *SHORT, *cluster
    status, _, err = regard(capsys, *words)
    first, second, third, *_ = err.splitlines()
    assert (status, first) == (1, "starting Ray on this machine: ten seconds or more")
    assert second == "Ray has started: 2 workers, 0 of 3 chunks finished"
    assert third == "finished chunks: 0 of 3"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TerminatedError(143)])
def test_a_stop_counts_the_saved_chunks(run, tmp_path, capsys, cluster, monkeypatch, error):
    words = "translate", run, text_file(tmp_path), "-o", tmp_path / "out", *SHORT, *cluster
    monkeypatch.setattr(InProcess, "failure", error)
    for number, line in (
        (0, "no chunk of 3 is finished: the repeated command begins with the first\n"),
        (2, f"saved 2 of 3 chunks in {tmp_path / 'out.chunks'}: repeat the command to continue\n"),
    ):
        monkeypatch.setattr(InProcess, "fails_after", number)
        with suppress(KeyboardInterrupt, TerminatedError):
            main.run([str(word) for word in words])
        assert line in capsys.readouterr().err


def test_a_folder_with_other_files_is_refused(run, tmp_path, capsys, cluster):
    path = text_file(tmp_path)
    (tmp_path / "out.chunks").mkdir()
    (tmp_path / "out.chunks" / "mine").write_text("")
    status, _, err = regard(capsys, "translate", run, path, "-o", tmp_path / "out", *cluster)
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
        with pytest.raises(UserError, match="4 workers were killed while they processed chunk 3"):
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


def test_a_missing_ray_is_named_with_its_remedy(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "regard.cluster.bulk_workers", raising=False)
    words = "-o", tmp_path / "out", "--cluster", "local"
    status, _, err = regard(capsys, "translate", run, text_file(tmp_path), *words)
    assert status == 1
    assert "pip install 'ray[data]'" in err
    assert not (tmp_path / "out.chunks").exists()
