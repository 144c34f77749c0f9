"""Fetching, from files made here and from a server that runs here."""

from __future__ import annotations

import http.server
import re
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.data.download import tatoeba
from regard.data.examples import Pair
from regard.errors import UserError
from tests.messages import raises

TEXT = (
    "Go.\tGeh.\tCC-BY 2.0 (France) Attribution: tatoeba.org #1\r\n"
    "no tab\r\n"
    "Hi.\tGrüß Gott!\tCC-BY 2.0\r\n"
).encode()
WRITTEN = "Go.\tGeh.\nHi.\tGrüß Gott!\n"


def make_zip(path: Path, **texts: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(f"{name}.txt", text)
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_zip(tmp_path / "deu-eng.zip", deu=TEXT, _about=b"about")


@pytest.fixture
def server(archive: Path) -> Iterator[str]:
    """Serves the archive, the same cut short, and a page that is neither; asks for a browser."""
    content = archive.read_bytes()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.headers["User-Agent"].startswith("Mozilla"):
                self.send_error(406)
            elif self.path == "/deu-eng.zip":
                self.answer(content, len(content))
            elif self.path == "/short.zip":
                self.answer(content[:-31], len(content))
            elif self.path == "/page.zip":
                self.answer(b"<html>closed</html>", 19)
            else:
                self.send_error(404)

        def answer(self, body: bytes, length: int) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_local_zip_is_read(archive: Path, tmp_path: Path) -> None:
    destination = tmp_path / "new" / "folder" / "deu.tsv"
    corpus = tatoeba.fetch(destination, from_path=archive)
    assert destination.read_text(encoding="utf8") == WRITTEN
    assert corpus.pairs == (Pair("Go.", "Geh.", 1), Pair("Hi.", "Grüß Gott!", 3))
    assert corpus.summary() == (f"left out 1 line of {archive}/deu.txt: 1 without a tab (line 2)",)
    assert [each.name for each in destination.parent.iterdir()] == ["deu.tsv"]


def test_a_local_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "deu.txt").write_bytes(TEXT)
    tatoeba.fetch(tmp_path / "out.tsv", from_path=tmp_path / "deu.txt")
    assert (tmp_path / "out.tsv").read_text(encoding="utf8") == WRITTEN


def test_the_download_reports_progress(server: str, archive: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int | None]] = []
    tatoeba.fetch(
        tmp_path / "out.tsv",
        address=f"{server}/deu-eng.zip",
        progress=lambda come, total: calls.append((come, total)),
    )
    assert (tmp_path / "out.tsv").read_text(encoding="utf8") == WRITTEN
    size = archive.stat().st_size
    assert calls[-1] == (size, size)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("gone.zip", "404"),
        ("short.zip", "received .* bytes|IncompleteRead"),
        ("page.zip", "the download is not a complete zip file"),
    ],
)
def test_a_failed_download_leaves_no_file(
    page: str, message: str, server: str, tmp_path: Path
) -> None:
    destination = tmp_path / "out.tsv"
    destination.write_text("older")
    with pytest.raises(UserError, match=message):
        tatoeba.fetch(destination, address=f"{server}/{page}")
    assert destination.read_text() == "older"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["deu-eng.zip", "out.tsv"]


def test_without_a_network_the_manual_way_is_printed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"regard data tatoeba --from FILE -o .*out\.tsv"):
        tatoeba.fetch(tmp_path / "out.tsv", address="http://127.0.0.1:1/deu-eng.zip")


def test_a_zip_of_other_files_is_rejected_with_its_contents(tmp_path: Path) -> None:
    for texts in ({"_about": b"x"}, {"a": b"x", "b": b"y"}):
        archive = make_zip(tmp_path / "other.zip", **texts)
        inside = re.escape(f"holds {'.txt, '.join(texts)}.txt: expected one .txt")
        with pytest.raises(UserError, match=inside):
            tatoeba.fetch(tmp_path / "out.tsv", from_path=archive)
    with pytest.raises(UserError, match=r"cannot read .*nothing"):
        tatoeba.fetch(tmp_path / "out.tsv", from_path=tmp_path / "nothing")
    assert not (tmp_path / "out.tsv").exists()


def test_a_broken_zip_is_named(archive: Path, tmp_path: Path) -> None:
    content = bytearray(archive.read_bytes())
    content[40:50] = b"0123456789"
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot read .*deu\.txt"):
        tatoeba.fetch(tmp_path / "out.tsv", from_path=archive)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_truncated_download_leaves_no_file(archive, tmp_path, share):
    cut = tmp_path / "cut.zip"
    content = archive.read_bytes()
    cut.write_bytes(content[: int(share * len(content))])
    destination = tmp_path / "out" / "pairs.tsv"
    with raises(UserError):
        tatoeba.fetch(destination, address=cut.as_uri())
    assert not destination.exists()
