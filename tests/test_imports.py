"""Rules beyond import-linter: owners of libraries, imports at startup, public names."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_runs import RUNS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "regard"
OWNERS = {
    "matplotlib": ("viewing",),
    "rich": ("cli", "viewing/terminal.py", "viewing/sentence.py"),
    "PIL": ("data", "viewing"),
    "starlette": ("cluster/deployment.py", "serving"),
    "uvicorn": ("serving",),
    "prometheus_client": ("serving",),
    "sacrebleu": ("metrics",),
    "charset_normalizer": ("data/recognition",),
    "python_calamine": ("data/files",),
    "pyarrow": ("data/files",),
    "tensorboard": ("training/trackers",),
    "wandb": ("training/trackers",),
    "mlflow": ("training/trackers",),
    "ray": ("cluster",),
    "sklearn": ("estimators.py",),
    "IPython": ("viewing",),
    "tokenizers": ("data",),
    "spacy": ("data",),
    "onnx": ("exporting",),
    "onnxruntime": ("exporting",),
    "ctranslate2": ("exporting",),
    "triton": ("compiled/attention/fused_additive/triton_kernels.py",),
}
"""The folders and files of the package that may import a library. Other modules call these
owners."""

PUBLIC: dict[str, list[str]] = {
    "regard": [
        *("CaptionModel", "ClassificationModel", "Classifier", "GeneratedText", "Prediction"),
        *("Trace", "TranslationModel", "Translator", "UserError"),
        *("accelerate", "attention", "keep_freed_memory", "load", "plain", "train"),
    ]
}
"""The names that users may rely on. Taking one away breaks somebody's program."""


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the full name of every module imported anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


def strangers(package: Path) -> list[str]:
    """Imports of a library outside of its owners."""
    problems = []
    for file in sorted(package.rglob("*.py")):
        place = file.relative_to(package).as_posix()
        for line, module in imports_of(ast.parse(file.read_text(encoding="utf-8"))):
            owners = OWNERS.get(module.split(".")[0])
            if owners and not any(place == o or place.startswith(f"{o}/") for o in owners):
                problems.append(f"{place}:{line} imports {module}, which belongs to {owners}")
    return problems


def modules_loaded_by(code: str, text: str = "") -> list[str]:
    """Return the modules that a fresh Python has loaded after this code, with this input."""
    ending = "import sys, json; print('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ending}"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded: list[str] = json.loads(done.stdout.splitlines()[-1])
    return loaded


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh Python has loaded after this code."""
    return {module.split(".")[0] for module in modules_loaded_by(code)}


def test_libraries_are_imported_by_their_owners_only() -> None:
    assert strangers(PACKAGE) == []


def test_imports_outside_the_owner_are_detected(tmp_path: Path) -> None:
    for folder in ("viewing", "models"):
        (tmp_path / folder).mkdir()
        text = "def draw():\n    from matplotlib import pyplot\n"
        (tmp_path / folder / "a.py").write_text(text)
    (found,) = strangers(tmp_path)
    assert found.startswith("models/a.py:2 imports matplotlib")


def test_importing_regard_loads_no_large_library() -> None:
    assert loaded_by("import regard") & {"torch", *OWNERS} == set()


COMMAND = """
import sys
from regard.cli.main import main
sys.argv = {words!r}
try:
    main()
except SystemExit as end:
    if end.code:
        raise
"""


def test_help_loads_no_large_library() -> None:
    heavy = {"torch", "safetensors", *OWNERS} - {"rich"}
    assert loaded_by(COMMAND.format(words=["regard", "--help"])) & heavy == set()


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_the_public_names_are_listed(module: str) -> None:
    __import__(module)
    assert sorted(sys.modules[module].__all__) == PUBLIC[module]


def test_every_public_name_can_be_imported() -> None:
    import regard

    assert all(hasattr(regard, name) for name in regard.__all__)


def test_test_oracles_do_not_import_the_package() -> None:
    oracles = ROOT / "tests" / "oracles"
    guilty = [
        f"{file.name}:{line}"
        for file in oracles.rglob("*.py")
        for line, module in imports_of(ast.parse(file.read_text(encoding="utf-8")))
        if module.split(".")[0] == "regard"
    ]
    assert guilty == []


FAMILIES = {
    "bahdanau": ("models.recurrent", "layers.recurrent", "compiled.recurrent"),
    "transformer": ("models.transformer", "layers.feed_forward", "compiled.transformer"),
}
"""Modules of the family of a run."""
OTHERS = (
    *("layers.experts", "layers.convolution", "layers.weight_norm", "models.convolution"),
    *("models.experts", "models.heads", "models.pointer_generator", "models.vision"),
)
"""Modules of parts that neither run has."""
MAX_MODULES = 190
"""Largest number of modules of the package that translate one line, packages not counted."""


@pytest.mark.parametrize("run", FAMILIES)
def test_a_translation_imports_its_family_alone(run: str) -> None:
    code = COMMAND.format(words=["regard", "translate", str(RUNS / run), "-"])
    names = {name for name in modules_loaded_by(code, "a b\n") if name.startswith("regard.")}
    modules = {name for name in names if not (ROOT / "src" / name.replace(".", "/")).is_dir()}
    families = {part for family in FAMILIES.values() for part in family} - {*FAMILIES[run]}
    strange = tuple(f"regard.{part}" for part in (*families, *OTHERS))
    assert [name for name in modules if name.startswith(strange)] == []
    assert len(modules) <= MAX_MODULES
