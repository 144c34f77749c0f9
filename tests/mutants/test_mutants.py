"""The list of faults fits the package: each names one line, and changes it."""

import pytest

from tests.mutants.run import ROOT, Mutant, file_of, mirrors_of, mutants

MUTANTS = mutants()


def test_the_list_covers_the_folders_of_the_package() -> None:
    package = ROOT / "src" / "regard"
    folders = {path.name for path in package.iterdir() if any(path.glob("*.py"))}
    assert len(MUTANTS) >= 60
    assert folders <= {mutant.folder for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.line)
def test_each_fault_changes_one_line_of_its_folder(mutant: Mutant) -> None:
    path = file_of(mutant, ROOT / "src" / "regard").relative_to(ROOT / "src" / "regard")
    assert (path.parts[0] if len(path.parts) > 1 else "root") == mutant.folder
    assert mutant.fault != mutant.line
    assert all((ROOT / test).exists() for test in mirrors_of(mutant, path))
