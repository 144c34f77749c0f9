"""Parts of inputs: every line and every item is in exactly one part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.inference.byte_range import open_range
from regard.inference.parts import Items, Part, Shard, check_divisible, item_chunks, line_chunks

CONTENT = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\xc3", b"\0", b"x" * 29])).map(
    b"".join
)


def content_of(path, part):
    with open_range(path, part.begin, part.end) as file:
        return file.read()


def check_parts(path, content, parts):
    """The parts are whole lines, with the numbers of their first lines, and the file is their
    concatenation."""
    contents = [content_of(path, part) for part in parts]
    assert b"".join(contents) == content
    number = 1
    for part, text in zip(parts, contents, strict=True):
        assert part.first_line == number
        assert part.end == len(content) or not text or text.endswith(b"\n")
        number += text.count(b"\n")


@given(CONTENT, st.integers(1, 17))
def test_shards_have_every_line_once(tmp_path_factory, content, count):
    path = tmp_path_factory.getbasetemp() / "shards"
    path.write_bytes(content)
    check_parts(path, content, [Shard(n, count).of_lines(path) for n in range(1, count + 1)])


@given(CONTENT, st.integers(1, 23))
def test_chunks_have_every_line_once_and_are_not_empty(tmp_path_factory, content, num_bytes):
    path = tmp_path_factory.getbasetemp() / "chunks"
    path.write_bytes(content)
    chunks = line_chunks(path, num_bytes)
    check_parts(path, content, chunks)
    assert all(part.begin < part.end for part in chunks)
    assert [part.number for part in chunks] == list(range(len(chunks)))


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9))
def test_items_are_in_one_part_each(number, unit, count):
    for parts in (
        item_chunks(number, unit),
        [Shard(n, count).of_items(number) for n in range(1, count + 1)],
    ):
        items = Items(lambda: iter(range(number)), 3)
        assert [item for part in parts for item in items.of(part)] == list(range(number))
        assert list(items.of(None)) == list(range(number))


def test_items_of_parts_in_increasing_order_are_read_once():
    num_passes = 0

    def read():
        nonlocal num_passes
        num_passes += 1
        yield from range(20)

    items = Items(read, 3)
    assert list(items.of(Part(0, 2, 5))) == [2, 3, 4]
    assert list(items.of(Part(1, 9, 11))) == [9, 10]
    assert num_passes == 1
    assert list(items.of(Part(0, 2, 5))) == [2, 3, 4]
    assert num_passes == 2


@pytest.mark.parametrize(
    "text", ["", "1", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", "²/4", " 1/2"]
)
def test_a_wrong_shard_is_one_line(text):
    with pytest.raises(UserError, match=r"^--shard is .*such as 2/4"):
        Shard.parse(text)


def test_files_that_cannot_be_divided_are_refused(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(UserError, match="unpack it first"):
        line_chunks(path)
    for name in ("utf-16", "utf-16-le", "utf-7", "iso2022_jp", "hz"):
        with pytest.raises(UserError, match="cannot be read from the middle"):
            check_divisible(path, name)
    path.write_bytes(b"a\rb\rc")
    with pytest.raises(UserError, match="CR alone"):
        check_divisible(path, "utf-8")
