"""Special tokens, which come first in every vocabulary."""

PAD, START, END, UNKNOWN = 0, 1, 2, 3
"""Numbers of the special tokens. A vocabulary may lack UNKNOWN."""

SPECIAL = ("<pad>", "<sos>", "<eos>", "<unk>")
"""Names of the special tokens, in the order of their numbers."""
