"""Files of figures: whole, of a size that can be opened, and of known kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from regard.errors import UserError
from regard.viewing.figure import MAX_DOTS, check_suffix, empty_figure, write


def test_very_wide_figures_have_a_lower_resolution(tmp_path: Path) -> None:
    figure = empty_figure(300.0, 0.5)
    figure.add_axes((0, 0, 1, 1))
    write(figure, tmp_path / "wide.png")
    with Image.open(tmp_path / "wide.png") as image:
        assert 0.9 * MAX_DOTS < image.width < 1.1 * MAX_DOTS


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*taken"):
        write(empty_figure(1.0, 1.0), tmp_path / "taken.png")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.png"]


@pytest.mark.parametrize("name", ["a.gif", "a", "png", ".png", "a.png.txt"])
def test_unknown_suffixes_are_rejected(name: str) -> None:
    with pytest.raises(UserError, match=r"expected a file name with \.png, \.svg, \.pdf"):
        check_suffix(name)


def test_suffixes_may_be_upper_case() -> None:
    assert check_suffix("a.b.PNG") == "png"
