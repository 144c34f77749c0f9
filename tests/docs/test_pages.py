"""Markdown parsing, tested on a small page."""

from __future__ import annotations

from tests.docs.pages import ROOT, Block, anchors_of, blocks_of, links_of, name, pages

SAMPLE = """# A page: with *signs*

[one](other.md#the-end) and ![two](<a.png> "title") and [three][ref], `[not](this)`.

- in a list

  ```python norun: it needs a month
  x = 1
    y
  ```

```console
$ echo a \\
    b | grep b
a b
$ false
# no heading
[no](link)
```

[ref]: https://example.org/x
<img src="b.svg"> <a id="here"></a>

## Again
## Again
"""


def test_blocks_have_their_place_language_and_words() -> None:
    python, console = blocks_of("page.md", SAMPLE)
    assert python == Block("page.md", 8, "python", "norun: it needs a month", "x = 1\n  y\n")
    assert (console.place, console.language, console.words) == ("page.md:13", "console", "")


def test_commands_follow_a_dollar_and_continue_after_a_backslash() -> None:
    assert blocks_of("page.md", SAMPLE)[1].commands == ["echo a b | grep b", "false"]


def test_only_a_plain_name_is_a_file() -> None:
    assert Block("page.md", 1, "yaml", "file=a-recipe.yaml", "").file == "a-recipe.yaml"
    assert Block("page.md", 1, "yaml", "file=../a.yaml", "").file is None
    assert Block("page.md", 1, "yaml", "", "").file is None


def test_links_are_found_in_prose_and_not_in_code() -> None:
    assert links_of(SAMPLE) == ["other.md#the-end", "a.png", "https://example.org/x", "b.svg"]


def test_anchors_come_from_headings_and_html() -> None:
    assert anchors_of(SAMPLE) == {"a-page-with-signs", "again", "again-1", "here"}


def test_every_page_is_found_once_and_none_of_an_environment() -> None:
    names = [name(page) for page in pages()]
    assert {"README.md", "CONTRIBUTING.md", "docs/README.md"} <= set(names)
    assert len(names) == len(set(names))
    assert all((ROOT / page).is_file() and not page.startswith(".") for page in names)
