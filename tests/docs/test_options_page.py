"""docs/options.md lists every field with its values and its default."""

from tests.docs.options_page import PAGE, START, tables


def test_the_options_page_is_up_to_date():
    text = PAGE.read_text(encoding="utf8").partition(START)[2]
    assert text == f"\n{tables()}", "run `python -m tests.docs.options_page`"
