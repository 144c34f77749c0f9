"""Format and columns by which the files of a run are read."""

from __future__ import annotations

from pathlib import Path

from regard.config import DataConfig
from regard.corpora.table_settings import settings_for
from regard.data.files.tables import TableSettings
from regard.tasks.evaluation import EvaluationOptions

DATA = DataConfig(
    path=Path("data/all.xlsx"), encoding="cp932", sheet="7b", header=False, source_column="2"
)
NO_OPTIONS = EvaluationOptions()


def test_the_training_file_has_the_format_of_the_training():
    columns = TableSettings(source_columns=("2",))
    assert settings_for(Path("data/../data/all.xlsx"), DATA, NO_OPTIONS) == TableSettings(
        encoding="cp932", sheet="7b", header=False, source_columns=("2",)
    )
    assert settings_for(Path("data/new.xlsx"), DATA, NO_OPTIONS) == columns
    assert settings_for(Path("all.xlsx"), DataConfig(source_column="2"), NO_OPTIONS) == columns


def test_options_of_an_evaluation_precede_those_of_the_training():
    options = EvaluationOptions(sheet="8a", header=True, target_column=("3",))
    settings = options.table_settings(DATA, Path("data/all.xlsx"))
    assert settings == TableSettings(
        encoding="cp932", sheet="8a", header=True, source_columns=("2",), target_columns=("3",)
    )


def test_a_link_to_itself_is_another_file(tmp_path):
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    settings = settings_for(tmp_path / "loop.csv", DATA, NO_OPTIONS)
    assert settings == TableSettings(source_columns=("2",))
