"""Pictures are read once, and again when anything about them changed."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.corpora import file_digests
from regard.data.images.images import ImageError
from regard.tasks.captioning import images
from regard.tasks.captioning.images import ImageSources

SOURCES = ImageSources(4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for name, shade in (("a.ppm", 10), ("b.ppm", 200)):
        paint(tmp_path / name, shade)
    return tmp_path


def paint(path, shade):
    Image.new("RGB", (8, 8), (shade, shade, shade)).save(path)


def image_set(folder):
    return SOURCES.image_set([str(folder / "a.ppm"), str(folder / "b.ppm")])


def shades(folder):
    found, _ = image_set(folder)
    return found.values[:, 0, 0, 0].tolist()


@pytest.fixture
def reads(monkeypatch):
    """The names of the pictures that were decoded."""
    names = []
    read = images.read_image

    def counted(name, *arguments):
        names.append(Path(name).name)
        return read(name, *arguments)

    monkeypatch.setattr(images, "read_image", counted)
    return names


def test_a_rewritten_image_of_equal_size_and_time_is_read_again(folder):
    assert shades(folder) == [10, 200]
    path = folder / "a.ppm"
    before = path.stat()
    for shade in (99, 55):  # as cp -p, rsync -t, unzip and tar do
        paint(path, shade)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        assert path.stat().st_mtime_ns == before.st_mtime_ns
        assert shades(folder) == [shade, 200]


def test_a_copy_with_another_time_is_not_read_again(folder, reads):
    shades(folder)
    os.utime(folder / "a.ppm", (1, 1))
    assert shades(folder) == [10, 200]
    assert reads == ["a.ppm", "b.ppm"]


def test_files_are_digested_once(folder, monkeypatch):
    digested = []
    digest = file_digests.digest_of_file
    monkeypatch.setattr(
        file_digests, "digest_of_file", lambda path: digested.append(path.name) or digest(path)
    )
    shades(folder)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 60)  # the files are old enough to be known
    for _ in range(3):
        shades(folder)
    assert digested == ["a.ppm", "b.ppm"] * 2


def test_an_unreadable_image_is_tried_again(folder, monkeypatch):
    read = images.read_image

    def refusing(name, *arguments):
        if name.endswith("b.ppm"):
            raise ImageError(f"cannot read the image {name}: Permission denied")
        return read(name, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(images, "read_image", refusing)
        found, left_out = image_set(folder)
        assert len(found.names) == 1
        assert "Permission denied" in left_out[0]
    found, left_out = image_set(folder)
    assert (len(found.names), left_out) == (2, ())
    assert found.values[:, 0, 0, 0].tolist() == [10, 200]


def test_a_new_version_of_pillow_reads_images_again(folder, reads, monkeypatch):
    shades(folder)
    monkeypatch.setattr(images, "version", lambda _: "0.0")
    shades(folder)
    assert reads == ["a.ppm", "b.ppm"] * 2


def test_used_images_stay_in_the_cache(folder, reads):
    for _ in range(4):
        shades(folder)
        for path in (folder / "cache").iterdir():  # twenty days pass
            status = path.stat()
            os.utime(path, (status.st_atime - 20 * 86_400, status.st_mtime - 20 * 86_400))
    assert reads == ["a.ppm", "b.ppm"]


def test_a_pipe_is_rejected_without_waiting(folder):
    os.mkfifo(folder / "pipe.ppm")
    names = [str(folder / "a.ppm"), str(folder / "pipe.ppm")]
    found, left_out = SOURCES.image_set(names)
    assert found.names == (names[0],)
    assert "pipe.ppm" in left_out[0]
    assert found.values.dtype == np.uint8
