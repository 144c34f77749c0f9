"""The script that measures memory over long work, on a little work."""

from tests.benchmarks.scripts import script


def test_every_part_has_a_row(capsys):
    soak = script("soak")
    assert soak.main(["--updates", "4", "--lines", "1100"]) == 0
    tables = capsys.readouterr().out.split("| lines |")
    assert [line.split("|")[1].strip() for line in tables[0].splitlines()[2:]] == [
        "0", "1", "2", "3", "4",
    ]  # fmt: skip
    assert [line.split("|")[1].strip() for line in tables[1].splitlines()[2:]] == [
        "0", "1,024", "1,100",
    ]  # fmt: skip
