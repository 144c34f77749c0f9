"""The packages of a GPU host, and the report of `make gpu`."""

import json
import sys
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks/gpu")
    import packages
    import report

    yield packages, report
    for name in ("packages", "report"):
        sys.modules.pop(name)


def wheel(folder, name, *requirements):
    path = folder / f"{name}-1.0-py3-none-any.whl"
    about = "".join(f"Requires-Dist: {requirement}\n" for requirement in requirements)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Name: {name}\n{about}\ntext")
        archive.writestr(f"{name}.py", "NUMBER = 7\n")
    return path


def test_missing_packages_are_taken_with_their_needs(modules, monkeypatch, tmp_path):
    packages, _ = modules
    monkeypatch.setattr(packages, "wanted", lambda: ["torch>=2", "not-there>=1", "nowhere"])
    first = wheel(tmp_path, "not_there", "needed", "numpy", 'unneeded; extra == "more"')
    second = wheel(tmp_path, "needed")
    chosen, lacking = packages.missing(tmp_path)
    assert chosen == [first, second]
    assert lacking == ["nowhere"]
    packages.unpack(chosen, tmp_path / "site")
    assert (tmp_path / "site/needed.py").exists()


def test_an_older_package_of_the_host_is_missing(modules):
    packages, _ = modules
    assert packages.is_installed("torch>=2")
    assert not packages.is_installed("torch>=99")
    assert packages.name_of("Charset_Normalizer>=3.4") == "charset-normalizer"


@pytest.mark.parametrize("recipe", ["multi30k-luong", "multi30k-transformer"])
def test_peers_of_the_small_form_train_on_every_cpu(monkeypatch, recipe):
    for name in ("data", "peers"):  # other benchmarks have modules of these names
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(ROOT / "benchmarks/gpu")
    import data
    import peers

    device = torch.device("cpu")
    work = data.work_of(recipe, device, small=True)
    peer = peers.Peer(work, device, compiled=False)
    before = [weight.detach().clone() for weight in peer.model.parameters()]
    peer.update(work.batches[0])
    for name in ("data", "peers"):
        sys.modules.pop(name)
    assert not all(map(torch.equal, before, peer.model.parameters()))


def test_torch_is_never_downloaded(modules, monkeypatch, tmp_path):
    packages, _ = modules
    asked = []

    def download(requirement, folder):
        asked.append(packages.name_of(requirement))
        wheel(folder, asked[-1].replace("-", "_"))
        (folder / "torch-2.11-py3-none-any.whl").write_bytes(b"")
        return "no such wheel" if asked[-1] == "ctranslate2" else ""

    monkeypatch.setattr(packages, "_download", download)
    left_out = packages.download(tmp_path, {*packages.HOST, "rich"})
    assert not {"torch", "numpy", "rich"} & set(asked)
    assert left_out == ["ctranslate2: no such wheel"]
    assert not list(tmp_path.glob("torch*"))
    assert list(tmp_path.glob("sacrebleu*"))


def test_a_report_lists_failures_and_figures(modules, tmp_path):
    _, report = modules
    tests = [
        {"test": "a", "outcome": "passed", "seconds": 1, "text": "", "properties": {"x": "y"}},
        {"test": "b", "outcome": "failed", "seconds": 1, "text": "E  wrong", "properties": {}},
    ]
    (tmp_path / "tests.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    figures = {"Regard": {"tokens/s": 7}, "peer": {"error": "no memory"}}
    (tmp_path / "figures-training.json").write_text(json.dumps(figures))
    result = report.Report(tmp_path, tmp_path, {"device": "a GPU"})
    result.parts["decoding"] = report.Part("stopped at its limit", 60.0, "the last line")
    result.write()
    saved = json.loads((tmp_path / "gpu.json").read_text())
    names = [failure["name"] for failure in saved["failures"]]
    assert names == ["b", "training: peer", "decoding"]
    page = (tmp_path / "gpu.md").read_text()
    for text in ("# Regard on a GPU", "E  wrong", "| Regard | 7 |", "the last line", "| x | y |"):
        assert text in page
