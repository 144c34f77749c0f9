"""Entries of messages.txt."""

from tests import messages


def test_every_entry_has_a_test():
    gone = [entry for entry in messages.read() if not messages.has_test(entry)]
    assert not gone, "entries without a test: `make messages` removes them"
