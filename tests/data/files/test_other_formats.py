"""Files of other formats than tables and lines."""

from __future__ import annotations

import pytest

from regard.data.files.formats import recognise
from regard.data.files.tables import TableSettings
from regard.errors import UserError

XML = '<?xml version="1.0"?>\n'
FILES = {
    "de.po": (
        '# German\nmsgid ""\nmsgstr "charset=UTF-8"\n\nmsgid "Open"\nmsgstr "Öffnen"\n',
        "PO",
    ),
    "memory.tmx": (f'{XML}<!DOCTYPE tmx>\n<tmx version="1.4"><body>\n', "TMX"),
    "job.xlf": (f'{XML}<xliff version="1.2"><file>\n', "XLIFF"),
    "film.srt": ("1\n00:00:01,000 --> 00:00:03,500\nHello there!\n\n", "subtitles"),
    "film.vtt": ("WEBVTT\n\n00:01.000 --> 00:03.500\nHello there!\n\n", "subtitles"),
    "page.html": ("<!DOCTYPE html>\n<html><table>\n", "HTML"),
    "data.xml": (f"{XML}<records><record>\n", "XML"),
    "papers.ris": ("TY  - JOUR\nAU  - Miller, A.\nER  - \n", "RIS"),
    "papers.bib": ("% a comment\n@article{miller,\n  title = {A title},\n}\n", "BibTeX"),
    "letter.eml": ("Return-Path: <a@example.org>\nSubject: Hello\n\nHello!\n", "e-mail"),
    "letters.mbox": ("From a@example.org Mon May  4 10:00:00 2026\nSubject: Hello\n", "e-mail"),
    "letter.rtf": ("{\\rtf1\\ansi Hello}\n", "RTF"),
}


def beginning(path, text):
    path.write_text(text * 9)
    return recognise(path, TableSettings())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("suffix", ["own", ".txt"])
def test_other_formats_are_refused_by_their_text(tmp_path, name, suffix):
    text, title = FILES[name]
    path = tmp_path / (name if suffix == "own" else f"data{suffix}")
    with pytest.raises(
        UserError, match=f"{path.name} is an? .*{title}|{path.name} is XML"
    ) as error:
        beginning(path, text)
    assert ", which is not read: " in str(error.value)


@pytest.mark.parametrize("name", ["film.srt", "de.po.gz", "FILM.VTT", "memory.tmx"])
def test_other_formats_are_refused_by_their_suffix(tmp_path, name):
    with pytest.raises(UserError, match=r"is a .*, which is not read"):
        beginning(tmp_path / name, "some words\nother words\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.py", "import os\n\ndef main():\n    print(1)\n"),
        ("Main.java", "package org.example;\n\npublic class Main {\n"),
        ("analysis.r", "library(lme4)\nx <- 1\n"),
        ("script", "#!/bin/sh\nls\n"),
    ],
)
def test_source_code_is_refused(tmp_path, name, text):
    with pytest.raises(UserError, match=r"is (source code|a program), which is not read: write "):
        beginning(tmp_path / name, text)


@pytest.mark.parametrize("name", ["train.cs", "pairs.xml", "pairs.srt", "pairs.txt"])
def test_tables_are_read_with_any_suffix(tmp_path, name):
    text = "import tax\tdovozní daň\nfrom here\todsud\nclass A:\ttřída A\n"
    assert beginning(tmp_path / name, text).delimiter == "\t"
    assert beginning(tmp_path / "train.cs", "dovozní daň\nodsud\n").delimiter is None
