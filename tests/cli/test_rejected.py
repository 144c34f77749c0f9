"""Command lines that are rejected: one line that names the cause, and no file is written."""

from __future__ import annotations

import os
import shlex

import pytest
from PIL import Image

from tests.cli.test_commands import regard
from tests.small_runs import RUNS

FILES = {
    "table.csv": 'n;source;remark\n1;1 2 a;"a; b"\n2; ;c\n3;3 1 a\n4;6 4 a;d;e\n',
    "letters.csv": "a,b\nc,d\n",
    "kinds.csv": "id,kind\n1,x\n2,y\n3,z\n4,x\n5,z\n6,z\n",
    "empty.csv": "",
    "words.csv": "text\nwho\n",
    "lines.txt": "a b c\n",
    "pairs.tsv": "a\tb\n",
    "images.csv": "file,caption\na.png,b\n",
}

CASES = {
    # tables
    "translate bahdanau table.csv --source-column text": "has no column 'text' (--source-column)",
    "translate bahdanau table.csv --follow": "--follow is for lines, but",
    "translate bahdanau table.csv -o out.xlsx": "cannot write out.xlsx: name a .csv",
    "translate bahdanau table.csv -o out.json": "cannot write out.json: name a .csv",
    "translate bahdanau table.csv -o out.csv --beam 2 --nbest 2": (
        "out.csv is the name of a table, but --nbest 2 writes"
    ),
    "translate bahdanau table.csv -o out.csv.gz": "cannot write out.csv.gz: files are",
    "translate bahdanau table.csv --trace t.jsonl.gz": "cannot write t.jsonl.gz: files are",
    "translate bahdanau lines.txt -o out.csv --nbest 2": "--nbest 2 writes 2 lines for a",
    "translate bahdanau lines.txt -o out.parquet": "out.parquet is the name of a table, but",
    "translate bahdanau lines.txt -o out.csv": "out.csv is the name of a table, but each",
    "translate bahdanau lines.txt --header": "--header is for tables, but each line of",
    "translate bahdanau lines.txt --no-header": "--no-header is for tables, but each line of",
    "translate bahdanau lines.txt --delimiter tab": "--delimiter is for tables, but each line",
    "translate bahdanau lines.txt --encoding x1": "--encoding is 'x1': expected a name such as",
    "translate bahdanau table.csv --encoding x1": "--encoding is 'x1': expected a name such as",
    "translate bahdanau table.csv --delimiter '|\"'": "--delimiter is '|\"': expected characters",
    "classify classifier letters.csv --source-column text": "has no column 'text' (--source",
    "classify classifier kinds.csv": "name the column of the sources with",
    "classify classifier empty.csv": "is empty: expected rows with a source each",
    "classify classifier words.csv --tint": "--tint is for lines, but",
    "classify classifier words.csv --follow": "--follow is for lines, but",
    "classify classifier lines.txt --header True": "--header is for tables, but each line of",
    "classify classifier lines.txt --encoding x1": "--encoding is 'x1': expected a name such as",
    "classify classifier table.csv --encoding x1": "--encoding is 'x1': expected a name such as",
    "check table.csv --encoding x1": "--encoding is 'x1'",
    "train table.csv --data.encoding x1": "data.encoding is 'x1'",
    "caption captioner a.png -o x.csv": "x.csv is the name of a table, but each line",
    "score bahdanau pairs.tsv -o x.csv": "x.csv is the name of a table, but each line of the",
    # inputs and outputs
    "translate nowhere": "nowhere is not a run",
    "translate bahdanau lines.txt -o one --alignments one": "two of the files to write are the",
    "translate bahdanau lines.txt -o lines.txt": "lines.txt would be overwritten while it is read",
    "classify classifier words.csv -o words.csv": "words.csv would be overwritten while it is",
    "score bahdanau pairs.tsv --trace pairs.tsv": "pairs.tsv would be overwritten while it is",
    "caption captioner a.png -o a.png": "a.png would be overwritten while it is read",
    "classify classifier 'who is it'": "cannot read who is it: no such file or directory; to read",
    "translate plain lines.txt --alignments links": (
        "no attention to the source: leave --alignments out"
    ),
    "translate bahdanau --encoding cp1252": "but the standard input is read as it arrives, as",
    "translate bahdanau lines.txt --beam 1000 --max-ratio 1000": "search.beam is 1,000 and an",
    "translate bahdanau lines.txt --max-ratio 1e22": "line 1: decoding may take",
    "translate bahdanau --follow --beam 2 --nbest 2": "--follow prints one line for each input",
    "translate bahdanau --follow --verbose": "--follow prints one line for each input line",
    "translate bahdanau --follow --output x": "--follow prints one line for each input line",
    "caption captioner a.png --unknown-replacement": "an image has none",
    # parts
    "translate bahdanau lines.txt --shard 3/2": "--shard is '3/2'",
    "translate bahdanau lines.txt --shard 1/2 --follow": "leave out --shard",
    "translate bahdanau lines.txt --cluster local --shard 1/2 -o out": "leave out --shard",
    "translate bahdanau lines.txt --cluster local": "name it with -o",
    "translate bahdanau lines.txt --cluster local -o /dev/null": "name it with -o",
    "translate bahdanau lines.txt --workers 2": "--workers is for a Ray cluster",
    "translate bahdanau lines.txt --gpus 1": "--gpus is for a Ray cluster",
    "translate bahdanau lines.txt --cluster local -o out --workers 0": "--workers is '0'",
    "translate bahdanau lines.txt --cluster local -o out --gpus 1.5": "--gpus is '1.5'",
    "translate bahdanau lines.txt --encoding utf-16 --shard 1/2": "cannot be read from the middle",
    "translate bahdanau --shard 1/2": "the input is the standard input: name a file",
    # runs of another task
    "translate classifier": "data.task translate. `regard classify` is the command for ",
    "translate captioner": "expected a run with data.task translate. `regard caption` is",
    "caption classifier x.png": "`regard classify` is the command for ",
    "score classifier pairs.tsv": "is classify: expected a run with data.task translate",
    "export classifier --to ctranslate2": "is classify: expected a run with data.task translate",
    # plot
    "plot bahdanau 'a b' -o a.gif": "has no known suffix: expected a figure (.png",
    "plot bahdanau ' ' --target a": "the text is blank",
    "plot bahdanau 'a b' --kind encoder": "no attention of kind encoder: set --kind to cross",
    "plot bahdanau lines.txt --experts": "the model has no encoder experts: train with",
    "plot transformer 'a b' --layer 3": "there is no layer 3: expected 1 to 2",
    "plot transformer 'a b' --head 0": "there is no head 0: expected 1 to 2",
    "plot transformer 'a b' --layer 1 -o trace.json": "has the attention of every kind",
    "plot transformer 'a b' --cells -o trace.json": "--layer, --head, --mean and --cells, or name",
    "plot transformer 'a b' --cells": "--cells is for captions",
    "plot classifier who --kind decoder": "has no attention of kind decoder",
    "plot classifier who --target x": "--target is for runs that translate",
    "plot classifier ' '": "the text is blank: expected a text to classify",
    "plot classifier who --cells": "--cells is for captions",
    "plot classifier who --layer 1": "--layer, --head and --mean are for heatmaps",
    "plot classifier who --mean": "a prediction has one map",
    "plot classifier who --feature-maps": "--feature-maps draws a figure: name a file",
    "plot classifier who --feature-maps -o x.npz": "--feature-maps draws a figure: name a file",
    "plot classifier who -o x.png --feature-maps --layer 9": "there is no layer 9: expected 1 to ",
    "plot classifier who --feature-maps -o x.png --mean": "--feature-maps takes --layer, --title",
    "plot classifier who -o x.json --mean": "x.json has the attention of every kind",
    "plot captioner a.png -o x.png --target y": "--target is for runs that",
    "plot captioner a.png --cells": "name a file with -o",
    "plot captioner-transformer a.png -o x.png --layer 3": "no layer 3: expected 1 to 1",
    "plot captioner-transformer a.png -o x.png --kind image --head 4": "there is no head 4:",
    "plot captioner-transformer a.png -o x.png --mean": "--mean is for heatmaps",
    "plot captioner-transformer a.png -o x.png --kind cross": (
        "has no attention of kind cross: set --kind to image or decoder"
    ),
    "plot captioner-transformer a.png -o x.png --kind decoder --cells": (
        "--cells is for captions that are drawn on their"
    ),
    # evaluate
    "evaluate bahdanau": "has no held-out test split: name the data",
    "evaluate bahdanau --target-path x": "--target-path is the file of the targets: name the file",
    "evaluate bahdanau pairs.tsv --first 0": "--first is 0: expected 1 or more",
    "evaluate bahdanau pairs.tsv --first -5": "--first is -5: expected 1 or more",
    "evaluate classifier pairs.tsv --beam 3": "--beam has no effect on",
    "evaluate classifier pairs.tsv --lowercase": "--lowercase has no effect on",
    "evaluate classifier pairs.tsv --error-rates": "run with data.task classify: leave it out",
    "evaluate classifier pairs.tsv": "line 1: the label 'b' is not in the training data",
    "evaluate captioner --lowercase": (
        "--lowercase has no effect on captioner, a run with data.task caption"
    ),
    "evaluate captioner --tokenized": "a run with data.task caption: leave it out",
    "evaluate captioner --error-rates": "--error-rates has no effect on",
    "evaluate captioner --target-path x": "--target-path has no effect on",
    "evaluate captioner images.csv --unknown-replacement": "an image has none",
    # train
    "train copy --name ''": "expected",
    "train copy --name .": "expected",
    "train copy --name ..": "expected",
    "train copy --name ../outside": "expected",
    "train copy --name a/b": "expected",
    "train pairs.tsv --output ''": "--output is '': expected a path",
    "train pairs.tsv --output=": "--output is '': expected a path",
    "train pairs.tsv -o ''": "-o is '': expected a path",
    "train pairs.tsv --model.family transfomer": (
        "model.family is 'transfomer': expected recurrent or transformer or gated_convolution or "
        "dilated_convolution, which"
    ),
    "train pairs.tsv --model.encoder.kind transfomer": "is 'transfomer': expected recurrent, tr",
    "train pairs.tsv --model.encoder.kind backbone": "dilated_convolution (data.task is translate)",
    "train pairs.tsv --data.task classify --model.head.kind men": "did you mean mean?",
    "train words.csv --data.task classify --model.family attention!": (
        "'attention!': expected recurrent or transformer or bag_of_words or gated_convolution or "
    ),
    "train pairs.tsv --model.size 8 --model.encoder.size 8 --model.decoder.size 8": (
        "--model.size has no effect: every part sets its own size; use --model.encoder.size or "
    ),
    "train copy --model.dropout 0.5 --model.encoder.dropout 0.5 --model.decoder.dropout 0.5": (
        "--model.dropout has no effect: every part sets its own dropout; use --model.encoder"
    ),
    "train fifo.tsv": "cannot read fifo.tsv: it is a named pipe (FIFO)",
    "train fifo.yaml": "cannot read fifo.yaml: it is a named pipe (FIFO)",
    "train folder.tsv": "folder.tsv is a directory: expected a recipe or a file",
    "train bahdanau": "bahdanau is a run folder: expected a recipe or a file. To continue",
    "train gone.xlsx": "gone.xlsx does not exist: expected a data file",
    "train gone.csv.gz": "gone.csv.gz does not exist: expected a data file",
    "train gone.yaml": "cannot read gone.yaml: no such file",
    "train /dev/zero": "cannot read /dev/zero: it is a device",
    "train /dev/null": "no pairs in /dev/null",
    # others
    "train tatoeba-lung": "did you mean tatoeba-luong",
    "train gone.tsv": "gone.tsv does not exist: expected a data file",
    "check gone.tsv": "cannot read gone.tsv",
    "recipes nothing": "neither a recipe nor a file",
    "data letters -o five.json": "--output is five.json: expected a file .c",
    "data labels -o five.xlsx": "--output is five.xlsx: expected a file .c",
    "data copy -o five.csv": "--output is five.csv: expected a file .t",
    "compare gone": "gone does not exist: expected a run folder or a file of pairs",
}
"""Message of each command line."""
USAGE = {
    "compare": "name two or more run folders",
    "fly": "unknown command 'fly'",
    "train --training.epochs 1 copy": "--training.epochs precedes the recipe",
    "train --resume copy": "--resume precedes the recipe",
    "train copy --model.encoder.kind --model.size 8": (
        "expected recurrent or transformer or bag_of_words or gated_convolution or dilated"
    ),
    "train words --model.family": (
        "has no value: expected recurrent or transformer or gated_convolution or dilated"
    ),
    "train pairs.tsv --model.cell gru": "mean --model.encoder.cell or --model.decoder.cell?",
    "translate bahdanau lines.txt --trace -": "--trace is -: expected",
    "translate bahdanau lines.txt -o - --alignments -": " is -: expected",
    "plot bahdanau a -o -": "--output is -: expected",
    "train letters -o -": "--output is -: expected",
    "sweep letters --vary seed=1,2 -o -": "--output is -: expected",
    "data letters -o -": "--output is -: expected",
    "export bahdanau --to onnx -o -": "--output is -: expected",
    "evaluate bahdanau pairs.tsv bahdanau": "to compare runs, use `regard compare RUN",
}
"""Message of each command line that is no correct use of its command."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working folder, with runs and files to read."""
    monkeypatch.chdir(tmp_path)
    for run in RUNS.iterdir():
        (tmp_path / run.name).symlink_to(run)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    Image.new("RGB", (9, 9)).save("a.png")
    os.mkfifo("fifo.tsv")
    os.mkfifo("fifo.yaml")
    (tmp_path / "folder.tsv").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        *((line, 1, message) for line, message in CASES.items()),
        *((line, 2, message) for line, message in USAGE.items()),
    ],
)
def test_a_command_is_rejected_with_one_line(here, capsys, line, status, message):
    files = {path: path.lstat().st_mtime_ns for path in here.iterdir()}
    words = shlex.split(line)
    result, out, err = regard(capsys, *words)
    assert (result, out) == (status, "")
    assert message in err
    assert (err.count("\n"), err.startswith("regard")) == (1, True)
    assert {path: path.lstat().st_mtime_ns for path in here.iterdir()} == files
