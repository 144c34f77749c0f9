"""Rules beyond import-linter: owners of libraries, imports at startup, public names."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh Python has loaded after this code."""
    ending = "import sys, json; print('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ending}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {module.split(".")[0] for module in json.loads(done.stdout.splitlines()[-1])}


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


HELP = """
import sys
from regard.cli.main import main
sys.argv = ["regard", "--help"]
try:
    main()
except SystemExit as end:
    if end.code:
        raise
"""


def test_help_loads_no_large_library() -> None:
    heavy = {"torch", "safetensors", *OWNERS} - {"rich"}
    assert loaded_by(HELP) & heavy == set()


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
