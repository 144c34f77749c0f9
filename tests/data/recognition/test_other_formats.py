"""Files of other formats than tables and lines."""

from __future__ import annotations

import pytest

from regard.data.files.tables import TableSettings
from regard.data.recognition.formats import recognise
from regard.errors import UserError
from tests.messages import raises

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
    "best.txt": ("0 ||| a small dog ||| LM0= -12.5 WordPenalty0= -3 ||| -4.25\n", "hypotheses"),
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
    with raises(UserError):
        beginning(tmp_path / name, text)


@pytest.mark.parametrize("name", ["train.cs", "pairs.xml", "pairs.srt", "pairs.txt"])
def test_tables_are_read_with_any_suffix(tmp_path, name):
    text = "import tax\tdovozní daň\nfrom here\todsud\nclass A:\ttřída A\n"
    assert beginning(tmp_path / name, text).delimiter == "\t"
    assert beginning(tmp_path / "train.cs", "dovozní daň\nodsud\n").delimiter is None


@pytest.mark.parametrize(
    "cell",
    [
        "<html><body>Buy now!</body></html>",
        '<?xml version="1.0"?>',
        "#!/bin/sh",
        "\\documentclass{article}",
        "Received: your parcel",
        "From a@example.org to b",
        "@article{miller,",
        'msgid "Open"',
    ],
)
def test_cells_of_a_table_may_have_code_and_markup(tmp_path, cell):
    text = f"{cell}\tyes\nother words\tno\n"
    assert beginning(tmp_path / "labels.txt", text).delimiter == "\t"


@pytest.mark.parametrize(
    "line", ["\\documentclass{article}", "@article{miller,", 'msgstr ""Open""', "TY  - JOUR"]
)
def test_cells_of_several_lines_may_have_code_and_markup(tmp_path, line):
    path = tmp_path / "questions.csv"
    path.write_text("text,label\n" + f'"Is this wrong?\n{line}\nI think so.",yes\n' * 30)
    assert recognise(path, TableSettings()).delimiter == ","


def test_a_line_with_a_field_of_mail_is_no_mail(tmp_path):
    text = "Received: thanks for the parcel\nParcel still missing\n"
    assert beginning(tmp_path / "lines.txt", text).delimiter is None


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Received: from a\n\tby b\nSubject: Hello\n\nHello!\n", "e-mail"),
        ("<html>\n\t<p>words</p>\n\t<p>words</p>\n", "HTML"),
        ("% a comment\n\n  % another\n\\documentclass{article}\n", "LaTeX"),
        ('#, fuzzy\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "Öffnen"\n', "PO"),
    ],
)
def test_indented_and_commented_texts_of_other_formats_are_refused(tmp_path, text, title):
    with pytest.raises(UserError, match=f"is an? .*{title}.*, which is not read: "):
        beginning(tmp_path / "data.txt", text)
