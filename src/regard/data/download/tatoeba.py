"""Download of Tatoeba's sentence pairs from manythings.org: a zip with a text of three columns
(source, target, attribution). Their licence, CC BY 2.0 FR, requires the attribution."""

from __future__ import annotations

import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from regard.data.examples import Corpus
from regard.data.text.parallel import parse_pairs, read_pairs
from regard.errors import UserError
from regard.storage.files import whole

ADDRESS = "https://www.manythings.org/anki/deu-eng.zip"

CHUNK = 1 << 16
TIMEOUT_SECONDS = 30

Progress = Callable[[int, int | None], None]
"""Callback with the number of received bytes, and their total or None."""


def fetch(
    destination: str | Path,
    *,
    from_path: str | Path | None = None,
    address: str = ADDRESS,
    progress: Progress | None = None,
) -> Corpus:
    """Write the pairs to `destination` as lines of source TAB target, in their order, and return
    them.

    They are read from `from_path` (the .zip, or the .txt in it) or downloaded from `address`. The
    file is written completely or not at all. UserError if the download fails or has no pairs.
    """
    destination = Path(destination)
    destination.parent.mkdir(parents=True, exist_ok=True)
    if from_path is not None:
        corpus = _read(Path(from_path))
    else:
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            archive = Path(folder) / Path(address).name
            _download(address, archive, progress, destination)
            if archive.suffix == ".zip" and not zipfile.is_zipfile(archive):
                raise _unfetched(address, "the download is not a complete zip file", destination)
            corpus = _read(archive)
    with whole(destination) as path, path.open("wb") as file:
        for pair in corpus.pairs:
            file.write(f"{pair.source}\t{pair.target}\n".encode())
    return corpus


def _read(path: Path) -> Corpus:
    if not zipfile.is_zipfile(path):
        return read_pairs(path)
    with zipfile.ZipFile(path) as archive:
        texts = [
            name
            for name in archive.namelist()
            if name.endswith(".txt") and not Path(name).name.startswith("_")
        ]
        if len(texts) != 1:
            raise UserError(
                f"{path} holds {', '.join(archive.namelist()) or 'nothing'}: expected one .txt "
                "with pairs"
            )
        try:
            with archive.open(texts[0]) as file:
                return parse_pairs(file, f"{path}/{texts[0]}")
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            RuntimeError,
            NotImplementedError,
        ) as error:
            raise UserError(f"cannot read {texts[0]} in {path}: {error}") from error


def _download(address: str, archive: Path, progress: Progress | None, destination: Path) -> None:
    request = urllib.request.Request(address, headers={"User-Agent": "Mozilla/5.0 (regard)"})
    try:
        with (
            urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer,
            archive.open("wb") as file,
        ):
            length = answer.headers.get("Content-Length")
            total, received = int(length) if length else None, 0
            while chunk := answer.read(CHUNK):
                received += file.write(chunk)
                if progress is not None:
                    progress(received, total)
        if total is not None and received < total:
            raise HTTPException(f"received {received} of {total} bytes")
    except (urllib.error.URLError, HTTPException, OSError) as error:
        raise _unfetched(address, error, destination) from error


def _unfetched(address: str, reason: object, destination: Path) -> UserError:
    return UserError(
        f"cannot fetch {address} ({reason}): download it by other means and run "
        f"regard data tatoeba --from FILE -o {destination}"
    )
