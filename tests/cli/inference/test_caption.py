"""Captioning on the command line: scenes, pictures in files, and the attention on them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from regard.cli import main
from regard.data.images.annotations import read_captions
from regard.trace import Trace
from tests.cli.test_commands import regard
from tests.small_runs import RUNS

SCENE = "large red circle top left; small blue square centre"
SMALL = ("--data.synthetic-size", 24, "--data.dev-size", 10, "--data.test-size", 10)
SMALL += ("--data.image-size", 32, "--model.encoder.channels", 4, 8, "--model.size", 12)
SMALL += ("--training.epochs", 1, "--search.max-length", 6)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("captions") / "run"
    options = ["train", "shapes-caption", "-o", path, *SMALL]
    assert main.run([str(each) for each in options]) == 0
    return path


def test_circular_links_and_invalid_names_do_not_stop_other_captions(capsys, run, tmp_path):
    good, loop, odd = tmp_path / "a.png", tmp_path / "self.jpg", tmp_path / "\udcff.png"
    Image.new("RGB", (9, 7)).save(good)
    odd.write_bytes(good.read_bytes())
    loop.symlink_to(loop)
    status, out, err = regard(capsys, "caption", run, loop, odd, good, "-o", tmp_path / "out")
    assert (status, out, err.count("\n")) == (1, "", 3)
    assert err.splitlines()[2].startswith("1 output was cut at the maximum length (")
    assert "self.jpg" in err
    assert "is not UTF-8: rename the file" in err
    assert (tmp_path / "out").read_text().startswith(f"{good}\t")


def test_images_are_printed_with_captions_and_traces(run, tmp_path, capsys):
    assert regard(capsys, "data", "shapes", "--size", 2, "-o", tmp_path / "shapes")[0] == 0
    pictures = sorted((tmp_path / "shapes").glob("*.png"))
    assert len(pictures) == 2
    traces = tmp_path / "traces.jsonl"
    status, out, _ = regard(capsys, "caption", run, *pictures, SCENE, "--trace", traces)
    assert status == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == [*map(str, pictures), SCENE]
    for line in traces.read_text().splitlines():
        assert Trace.from_json(line).map("image").weights.shape[-1] == 64


def test_unreadable_images_are_named_and_the_others_captioned(run, tmp_path, capsys):
    Image.new("RGB", (9, 9)).save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_text("no picture")
    bad, good = tmp_path / "bad.png", tmp_path / "good.png"
    status, out, err = regard(capsys, "caption", run, bad, good)
    assert status == 1
    assert out.startswith(f"{good}\t")
    assert f"cannot read the image {bad}" in err


def test_the_images_of_a_folder_are_captioned_in_order(run, tmp_path, capsys):
    for name in ("b.png", "a.jpg", "c.PNG"):
        Image.new("RGB", (9, 9)).save(tmp_path / name)
    (tmp_path / "captions.csv").write_text("file,caption\n")
    (tmp_path / "folder.png").mkdir()
    status, out, err = regard(capsys, "caption", run, tmp_path)
    assert status == 0
    assert err.startswith(f"3 outputs were cut at the maximum length ({tmp_path / 'a.jpg'}, ")
    names = [line.partition("\t")[0] for line in out.splitlines()]
    assert names == [str(tmp_path / name) for name in ("a.jpg", "b.png", "c.PNG")]
    for name in ("d.png", "e.png"):
        (tmp_path / name).write_text("no image")
    status, again, err = regard(capsys, "caption", run, tmp_path)
    assert (status, again, err.count("\n")) == (1, out, 2)
    assert err.startswith(f"left out 2 images: cannot read the image {tmp_path / 'd.png'}: ")
    status, _, err = regard(capsys, "caption", run, tmp_path / "folder.png")
    assert (status, "has no images: expected files such as .jpg" in err) == (1, True)


def test_images_are_captioned_in_order(run, tmp_path, capsys, monkeypatch):
    from regard.tasks.captioning import model as captioner
    from regard.tasks.generation import Searcher

    names = [str(tmp_path / f"{number}.png") for number in range(5)]
    for number, name in enumerate(names):
        Image.new("RGB", (9, 9), (50 * number, 200 - 50 * number, 90)).save(name)
    images = [*names[:3], str(tmp_path / "gone.png"), names[0], *names[3:]]
    alone = [regard(capsys, "caption", run, name)[1] for name in images if "gone" not in name]
    sizes, search = [], Searcher.search

    def watched(self, source, *arguments, **how):
        sizes.append(len(source.values))
        return search(self, source, *arguments, **how)

    monkeypatch.setattr(Searcher, "search", watched)
    monkeypatch.setattr(captioner, "IMAGES_AT_A_TIME", 4)
    status, out, err = regard(capsys, "caption", run, *images)
    assert (status, out) == (1, "".join(alone))
    assert ("gone.png" in err, err.count("\n")) == (True, 2)
    assert sizes == [3, 3]


def test_attention_is_drawn_over_the_image(run, tmp_path, capsys):
    smooth, cells = tmp_path / "smooth.png", tmp_path / "cells.png"
    assert regard(capsys, "plot", run, SCENE, "-o", smooth)[0] == 0
    assert regard(capsys, "plot", run, SCENE, "-o", cells, "--cells")[0] == 0
    assert Image.open(smooth).size == Image.open(cells).size
    assert smooth.read_bytes() != cells.read_bytes()
    status, out, err = regard(capsys, "plot", run, SCENE)
    assert (status, "-o FILE" in err) == (0, True)
    caption, header, *words = out.splitlines()
    assert header.split() == ["word", "row", "column", "per", "cent"]
    assert [word.split()[0] for word in words][: len(caption.split())] == caption.split()
    assert regard(capsys, "plot", run, SCENE, "--feature-maps", "-o", smooth)[0] == 0
    assert Image.open(smooth).size != Image.open(cells).size
    status, _, err = regard(capsys, "plot", run, SCENE, "--cells")
    assert (status, "name a file with -o" in err) == (1, True)


def test_a_photograph_is_drawn_in_its_own_proportions(run, tmp_path, capsys):
    tall, wide = tmp_path / "tall.png", tmp_path / "wide.png"
    Image.new("RGB", (30, 120), "red").save(tall)
    Image.new("RGB", (120, 30), "red").save(wide)
    sizes = []
    for picture in (tall, wide):
        drawn = tmp_path / f"{picture.stem}-drawn.png"
        assert regard(capsys, "plot", run, picture, "-o", drawn)[0] == 0
        sizes.append(Image.open(drawn).size)
    assert sizes[0][1] > sizes[1][1]


def test_layers_and_heads_of_a_captioner_are_drawn_apart(tmp_path, capsys):
    run, image, drawn = RUNS / "captioner-transformer", tmp_path / "image.png", []
    Image.new("RGB", (9, 9), "red").save(image)
    for flags in ((), ("--layer", 1), ("--layer", 1, "--head", 2)):
        path = tmp_path / f"{len(drawn)}.svg"
        status, _, err = regard(capsys, "plot", run, image, "-o", path, *flags)
        assert (status, err) == (0, "")
        drawn.append(path.read_text())
    assert len(set(drawn)) == 3
    assert "layer 1, head 2; colour" in drawn[2]
    status, out, _ = regard(capsys, "plot", run, image, "--kind", "decoder", "--layer", 1, "--mean")
    assert status == 0
    assert out.splitlines()[1] == "decoder, layer 1"
    assert "<sos>" in out


def test_captions_of_scenes_are_scored_by_truth(run, capsys):
    status, out, _ = regard(capsys, "evaluate", run)
    assert status == 0
    names = [line.split("  ")[0] for line in out.splitlines()[1:]]
    # An untrained model describes no shape, so there is no score of its attention.
    assert names[-3:] == ["true", "true, 1 shape", "true, 3 shapes"]
    assert len({line.index(".") for line in out.splitlines()[1:]}) == 1
    (entry,) = json.loads((run / "results.json").read_text())["test.tsv"]
    assert entry["scores"][-1]["signature"] == "scenes:1"
    assert set(entry) == {
        "num_pairs",
        "search",
        "scores",
        "outputs",
        "left_out",
        "slices",
        "environment",
    }


def test_captions_of_image_files_are_scored_by_references(run, tmp_path, capsys):
    assert regard(capsys, "data", "shapes", "--size", 2, "-o", tmp_path / "shapes")[0] == 0
    (captions,) = (tmp_path / "shapes").glob("*.csv")
    status, out, err = regard(capsys, "evaluate", run, captions)
    assert (status, err) == (0, "")
    assert ("CIDEr-D" in out, "true" in out) == (True, False)


def test_progress_of_reading_images_is_shown_in_a_terminal(run, tmp_path, capsys, monkeypatch):
    from regard.cli import progress

    lines = ["file,caption"]
    for number in range(17):
        Image.new("RGB", (9, 9), (number, 0, 0)).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,a picture")
    (tmp_path / "captions.csv").write_text("\n".join(lines))
    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=90)
    )
    assert regard(capsys, "evaluate", run, tmp_path / "captions.csv")[0] == 0
    shown = screen.getvalue()
    assert ("reading images" in shown, "16/17" in shown) == (True, True)
    assert "captioning" in shown


def test_a_row_of_flickr30k_without_a_bar_is_left_out(tmp_path, capsys, monkeypatch):
    """The table of Flickr30k on Kaggle, results.csv, has such a row."""
    monkeypatch.chdir(tmp_path)
    rows = ["image_name| comment_number| comment"]
    for image in range(48):
        Image.new("RGB", (16, 16), (5 * image, 200, 90)).save(f"{image}.jpg")
        words = "dog", "cat", "man", "boat"
        rows += [
            f"{image}.jpg| {number}|  A {words[image % 4]} , number {number} , is here ."
            for number in range(5)
        ]
    line = 106
    rows[line - 1] = "20.jpg| 4   A dog runs across the grass ."
    Path("results.csv").write_text("\n".join(rows) + "\n")
    status, out, _ = regard(capsys, "check", "results.csv")
    assert status == 0
    assert "recipe captions" in out
    assert "239 " in out
    assert f"(line {line})" in out
    small = "--data.image-size", 32, "--model.encoder.channels", 4, 8, "--model.size", 12
    small += "--training.updates", 2, "--search.max-length", 6
    status, out, err = regard(capsys, "train", "results.csv", *small)
    assert status == 0
    assert f"(line {line})" in out + err
    captions = read_captions(Path("results.csv")).train
    assert len(captions.pairs) == 239
    assert len({pair.source for pair in captions.pairs}) == 48
    assert captions.pairs[0].target == "A dog , number 0 , is here ."
    assert [problem.line for problem in captions.problems] == [line]
