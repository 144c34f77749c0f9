"""Progress in a notebook, with a stand-in for IPython."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import regard
from tests.messages import check_message

PAIRS = [(f"{a}{b}", f"{b}{a}") for a in "abcdef" for b in "abcdef"]


@pytest.fixture
def shown(monkeypatch):
    """Contents of the cell's output, the last one last."""
    contents = []

    class Handle:
        def update(self, content, *, raw):
            assert raw
            contents.append(content)

    def display(content, *, raw, display_id):
        assert raw
        assert display_id
        contents.append(content)
        return Handle()

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.version_info = (9, 0)  # matplotlib reads it
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return contents


def test_a_notebook_shows_a_bar_and_a_table_of_validations(shown):
    model = regard.train(
        PAIRS, "letters", settings={"training.epochs": 2, "model.size": 8, "data.test_size": 0}
    )
    html, text = shown[-1]["text/html"], shown[-1]["text/plain"]
    assert html.count("<tr>") == 4  # names, two validations, and the mean of their weights
    assert '<progress aria-label="training" value="2" max="2">' in html
    assert "finished after 2 updates" in html
    assert text.splitlines()[0].startswith("epoch 1  update 1  exact match")
    assert text.splitlines()[2].startswith("mean weights  update 2  exact match")
    assert text.splitlines()[-1].startswith("finished after 2 updates")
    check_message(repr(model))
    result = model.translate("ab")
    end = ", cut at the maximum length" if result.is_cut else ""
    text = f"GeneratedText('ab' -> {result.text!r}, score {result.score:.2f}{end})"
    assert repr(result) == text
    assert 'src="data:image/png;base64,' in result._repr_html_()
    assert "<img" not in model.translate("ab", attention=False)._repr_html_()


def test_an_estimator_shows_nothing(shown):
    settings = {"training.updates": 1, "model.size": 8}
    texts, targets = zip(*PAIRS, strict=True)
    regard.Translator(settings=settings).fit(texts, targets)
    assert shown == []
