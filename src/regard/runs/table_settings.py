"""Settings by which the files of a configuration are read."""

from __future__ import annotations

from regard.config import Data
from regard.data.files.tables import TableSettings


def table_settings(config: Data) -> TableSettings:
    """Return the format and the columns of a configuration. None: recognised from each file."""
    return TableSettings(
        encoding=config.encoding,
        delimiter=config.delimiter,
        header=config.header,
        source_columns=columns(config.source_column),
        target_columns=columns(config.target_column),
    )


def columns(value: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return one column, or several, as several."""
    return (value,) if isinstance(value, str) else value
