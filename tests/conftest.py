"""Every test runs with the types of shapes checked at run time, and can be interrupted."""

import signal

from jaxtyping import install_import_hook

install_import_hook("regard", "beartype.beartype")

# What a shell starts in the background ignores Ctrl-C, and so would the tests of interruption.
signal.signal(signal.SIGINT, signal.default_int_handler)
