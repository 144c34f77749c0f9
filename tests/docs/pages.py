"""What the tests of the docs read out of Markdown: blocks, links and anchors."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {"runs", "data", "models", "build", "dist", "node_modules"}
FENCED = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=indent)(?P=fence)`*[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def pages() -> list[Path]:
    """Every Markdown page of the project."""

    def is_ours(page: Path) -> bool:
        folders = page.relative_to(ROOT).parts[:-1]
        return not folders or not (folders[0] in NOT_OURS or any(f[0] == "." for f in folders))

    return sorted(page for page in ROOT.rglob("*.md") if is_ours(page))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block: the line where its text begins, its language and the words after that."""

    page: str
    line: int
    language: str
    words: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """What follows "$ "; a backslash at the end of a line goes on in the next."""
        joined = re.sub(r" *\\\n\s*", " ", self.text)
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]

    @property
    def file(self) -> str | None:
        found = re.fullmatch(r"file=([\w.-]+)", self.words)
        return found and found[1]


def blocks_of(page: str, text: str) -> list[Block]:
    """The fenced blocks of a page, dedented where they stand in a list."""
    blocks = []
    for found in FENCED.finditer(text):
        language, _, words = found["info"].strip().partition(" ")
        line = text.count("\n", 0, found.start("text")) + 1
        body = re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        blocks.append(Block(page, line, language, words.strip(), body))
    return blocks


def links_of(text: str) -> list[str]:
    """Where links and pictures lead: inline, by reference, and in HTML."""
    prose = re.sub(r"(`+)[^`]+\1", "code", FENCED.sub("", text))
    inline = re.findall(r"\]\(<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\)", prose)
    references = re.findall(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)", prose, re.MULTILINE)
    html = re.findall(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"([^\"]*)\"", prose)
    bare = re.findall(r"<(https?://[^>\s]+)>", prose)
    return inline + references + html + bare


def anchors_of(text: str) -> set[str]:
    """What headings can be linked by: lower case, hyphens for spaces, no punctuation; the second
    heading of one name gets -1."""
    prose = FENCED.sub("", text)
    anchors = set(re.findall(r"<\w+[^>]*\b(?:id|name)=\"([^\"]+)\"", prose))
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", prose, re.MULTILINE):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return anchors
