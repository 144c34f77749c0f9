"""Every test runs with the types of shapes checked at run time."""

from jaxtyping import install_import_hook

install_import_hook("regard", "beartype.beartype")
