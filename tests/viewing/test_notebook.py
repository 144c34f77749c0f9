"""HTML of results in notebooks, without IPython."""

from __future__ import annotations

import base64
import io
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from regard.errors import UserError
from regard.trace import AttentionMap, TokenSequence, Trace
from regard.viewing import notebook
from tests.messages import check_message

SOURCE = TokenSequence("she <b>", ("she", "<b>"), (0, 1))
PICTURE = np.full((3, 32, 32), 200, np.uint8)


def trace(weights, pieces, kind="cross", source=SOURCE):
    target = TokenSequence(" ".join(pieces), tuple(pieces), tuple(range(len(pieces))))
    return Trace(source, target, (AttentionMap(kind, weights),))


def image(html):
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return Image.open(io.BytesIO(base64.b64decode(data)))


def test_a_result_has_its_texts_a_figure_and_the_figure_in_words():
    weights = np.array([[[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.2, 0.8]]]])
    html = notebook.page("she <b>", "sie & er", ["score -0.10"], trace(weights, ["sie", '"']))
    assert "she &lt;b&gt;" in html
    assert "sie &amp; er" in html
    assert "score -0.10" in html
    (words,) = re.findall(r'alt="([^"]*)"', html)
    check_message(words)
    (width,) = re.findall(r'width="(\d+)"', html)
    assert image(html).width / int(width) == pytest.approx(160 / 96, rel=0.02)


def test_a_single_token_is_drawn_on_its_source_and_a_caption_on_its_image():
    single = notebook.describe_figure(trace(np.array([[[[0.9, 0.1]]]]), ["person"]))
    assert single is not None
    assert "1 output token to 2 source tokens" in single.description
    weights = np.full((1, 1, 2, 4), 0.1)
    weights[..., 3] = 0.7
    caption = trace(weights, ["a", "dog"], "image", TokenSequence("a.png", (), ()))
    picture = notebook.describe_figure(caption, lambda: PICTURE)
    assert picture is not None
    assert [axes.get_title() for axes in picture.figure.axes[:3]] == ["image", "a", "dog"]
    assert "dog: row 2, column 2 70%" in picture.description


def test_a_gradient_is_not_called_attention():
    weights = np.array([[[[0.9, 0.1], [0.2, 0.8]]]])
    figure = notebook.describe_figure(trace(weights, ["x", "y"], "gradient"))
    assert figure is not None
    check_message(figure.description)


def test_a_long_output_and_an_image_that_is_gone_are_shown_as_text():
    many = notebook.MAX_POSITIONS + 1
    long = trace(np.full((1, 1, many, 2), 0.5), ["a"] * many)
    assert notebook.describe_figure(long) is None
    assert notebook.TOO_LONG in notebook.page("a", "b", [], long)
    assert notebook.TOO_LONG not in notebook.page("a", "b", [])

    def gone():
        raise UserError("cannot read a.png")

    caption = trace(np.full((1, 1, 1, 4), 0.25), ["a"], "image", TokenSequence("a.png", (), ()))
    html = notebook.page("a.png", "a", [], caption, gone)
    assert "cannot read a.png" in html
    assert "<img" not in html


def test_a_notebook_is_recognised_by_its_kernel(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not notebook.is_notebook()
    assert "IPython" not in sys.modules
    for shell, expected in ((None, False), (object(), False), (SimpleNamespace(kernel=1), True)):
        module = SimpleNamespace(get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(sys.modules, "IPython", module)
        assert notebook.is_notebook() == expected
