"""Folders of labelled texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.labels import folders
from regard.data.labels.folders import read_folders
from regard.errors import UserError
from tests.cli.test_commands import regard
from tests.messages import check_message, raises


@pytest.fixture
def texts(tmp_path):
    for label in ("good", "bad"):
        (tmp_path / label).mkdir()
        for number in range(60):
            (tmp_path / label / f"{number}.txt").write_text(f"a {label} text {number}")
    return tmp_path


@pytest.mark.parametrize("name", ["/", "/usr", "/etc/", "/proc"])
def test_folders_of_the_system_are_refused_at_once(capsys, name):
    for words in (("check", name), ("train", "labels", "--data.path", name)):
        status, _, err = regard(capsys, *words)
        assert status == 1
        check_message(err)


def test_the_folder_of_the_user_is_refused(texts, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: texts)
    with pytest.raises(UserError, match="is a folder of the system"):
        read_folders(texts)


def test_reading_stops_at_many_files_that_are_no_texts(texts):
    for number in range(100):
        (texts / "bad" / f"{number}.txt").write_bytes(b"%PDF-1.7 \0")
    with raises(UserError):
        read_folders(texts)


def test_the_size_of_a_folder_is_bounded(texts, monkeypatch):
    monkeypatch.setattr(folders, "MAX_BYTES", 100)
    with raises(UserError):
        read_folders(texts)


def test_reading_reports_progress(texts, monkeypatch):
    monkeypatch.setattr(folders, "EVERY", 50)
    reports = []
    read_folders(texts, lambda *report: reports.append(report))
    assert reports == [("reading files", 50, 120), ("reading files", 100, 120)]
