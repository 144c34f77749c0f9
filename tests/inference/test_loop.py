"""The loop over an input: order, parts, files and faults."""

import pytest

from regard.errors import UserError
from regard.inference.loop import Output, Outputs, View, run, within_memory
from regard.inference.parts import Items, Part
from regard.trace import TokenSequence, Trace


class Squares:
    """A task that squares numbers, and refuses odd numbers."""

    columns = ()

    def __init__(self, numbers, fails_at=None):
        self.source = Items(lambda: iter(numbers), 3)
        self.fails_at = fails_at

    def chunks(self, run):
        return self.source.chunks(run)

    def outputs(self, chunk, run):
        for number in chunk:
            if number == self.fails_at:
                raise UserError("a failure")
            if number % 2:
                run.faults.add_refused(number)
            sequence = TokenSequence(str(number), (str(number),), (0,))
            trace = Trace(sequence, sequence, (), ()) if number % 3 else None
            yield Output(f"{number}\n{number**2}", links=f"0-{number}", trace=trace, no_trace="{}")


def files_of(folder):
    return Outputs(folder / "texts", folder / "links", folder / "trace")


@pytest.mark.parametrize("part", [None, Part(1, 2, 6)])
def test_outputs_are_written_in_order_with_their_faults(tmp_path, part):
    paths, finished, shown = files_of(tmp_path), [], []
    view = View(shown.append, lambda number, faults: finished.append((number, faults.num_refused)))
    faults = run(Squares(range(7)), part, paths, view)
    numbers = range(7) if part is None else range(2, 6)
    assert paths.texts.read_text() == "".join(f"{n}\n{n * n}\n" for n in numbers)
    assert paths.alignments.read_text() == "".join(f"0-{n}\n" for n in numbers)
    traces = paths.trace.read_text().splitlines()
    assert [line != "{}" for line in traces] == [n % 3 > 0 for n in numbers]
    assert faults.refused == [n for n in numbers if n % 2]
    assert finished == ([(3, 1), (3, 3), (1, 3)] if part is None else [(3, 1), (1, 2)])
    assert len(shown) == len(numbers)


def test_texts_without_a_file_are_on_the_standard_output(capsys):
    run(Squares([2]), None, Outputs(None))
    assert capsys.readouterr().out == "2\n4\n"


def test_a_failure_leaves_no_file(tmp_path):
    with pytest.raises(UserError, match="a failure"):
        run(Squares(range(7), fails_at=5), None, files_of(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_chunks_are_split_into_parts_that_fit():
    parts = within_memory([[1, 2, 3, 4], [5]], lambda chunk: [chunk[:3], chunk[3:]])
    assert [part for part in parts if part] == [[1, 2, 3], [4], [5]]
