"""Parse Markdown pages into fenced blocks, links and anchors, for the tests of the docs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXCLUDED = {"runs", "data", "models", "build", "dist", "node_modules"}
FENCED = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=indent)(?P=fence)`*[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def pages() -> list[Path]:
    """Return every Markdown page of the project."""

    def is_ours(page: Path) -> bool:
        folders = page.relative_to(ROOT).parts[:-1]
        return not folders or not (folders[0] in EXCLUDED or any(f[0] == "." for f in folders))

    return sorted(page for page in ROOT.rglob("*.md") if is_ours(page))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block: page, line of its first text, language, and words after the language."""

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
        """Return the commands after "$ ", with continued lines joined."""
        joined = re.sub(r" *\\\n\s*", " ", self.text)
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]

    @property
    def file(self) -> str | None:
        match = re.fullmatch(r"file=([\w.-]+)", self.words)
        return match and match[1]


def blocks_of(page: str, text: str) -> list[Block]:
    """Return the fenced blocks of a page; blocks inside a list are dedented."""
    blocks = []
    for match in FENCED.finditer(text):
        language, _, words = match["info"].strip().partition(" ")
        line = text.count("\n", 0, match.start("text")) + 1
        body = re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        blocks.append(Block(page, line, language, words.strip(), body))
    return blocks


def links_of(text: str) -> list[str]:
    """Return the targets of links and images: inline, by reference, and in HTML."""
    prose = re.sub(r"(`+)[^`]+\1", "code", FENCED.sub("", text))
    inline = re.findall(r"\]\(<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\)", prose)
    references = re.findall(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)", prose, re.MULTILINE)
    html = re.findall(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"([^\"]*)\"", prose)
    bare = re.findall(r"<(https?://[^>\s]+)>", prose)
    return inline + references + html + bare


def anchors_of(text: str) -> set[str]:
    """Return the anchors of the headings: lower case, hyphens for spaces, no punctuation.

    A repeated heading gets a number: -1 for the second, -2 for the third."""
    prose = FENCED.sub("", text)
    anchors = set(re.findall(r"<\w+[^>]*\b(?:id|name)=\"([^\"]+)\"", prose))
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", prose, re.MULTILINE):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return anchors
