"""The special tokens, which stand first in every vocabulary."""

PAD, START, END, UNKNOWN = 0, 1, 2, 3
"""Their numbers. A vocabulary may leave out the last."""

SPECIAL = ("<pad>", "<sos>", "<eos>", "<unk>")
"""Their names, in the order of their numbers."""
