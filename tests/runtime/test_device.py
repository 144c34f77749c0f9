"""Devices by name: for a recipe, for `regard.load` and for every command that runs a model."""

import pytest
import torch

import regard
from regard import recipes
from regard.cli import main
from regard.errors import UserError
from regard.runtime import processes
from regard.runtime.device import device_named
from regard.tasks.captioning import model as captioner
from regard.tasks.classification import model as classifier
from regard.tasks.translation import model as translator

RECIPES = {"classify": "labels", "caption": "captions"}
"""Recipes of commands for other tasks than translation."""


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_auto_is_a_gpu_if_there_is_one(gpus):
    assert device_named("auto") == torch.device("cuda")
    assert device_named("cuda:1") == torch.device("cuda:1")
    assert device_named(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(UserError, match="cuda:2, but torch sees 2 GPUs here"):
        device_named("cuda:2")


def test_auto_without_a_gpu_is_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_named("auto") == torch.device("cpu")
    with pytest.raises(UserError, match="device is cuda, but torch sees no GPU here"):
        device_named("cuda")


def test_processes_share_gpus_if_there_are_too_few(gpus, monkeypatch):
    monkeypatch.setattr(processes, "number", lambda: 4)
    for local_rank, gpu in enumerate([0, 1, 0, 1]):
        monkeypatch.setenv("LOCAL_RANK", str(local_rank))
        assert processes.own_device(torch.device("cuda")) == torch.device("cuda", gpu)
        assert processes.own_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize(("number", "backend"), [(1, None), (2, None), (3, "gloo")])
def test_processes_that_share_a_gpu_are_connected_by_gloo(gpus, monkeypatch, number, backend):
    backends = []
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(number))
    monkeypatch.setattr(processes, "rendezvous", lambda *_, **__: iter([(None, 0, number)]))
    monkeypatch.setattr(processes, "PrefixStore", lambda *_: None)
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda name, **_: backends.append(name)
    )
    processes._connect()
    assert backends == [backend]


@pytest.mark.parametrize(
    "name", ["", "meta", "mps", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:²", "gpu", "\0"]
)
def test_unknown_devices_are_rejected(gpus, name):
    with pytest.raises(UserError, match="expected auto, cpu, cuda, or a GPU"):
        device_named(name)


def test_a_model_is_loaded_to_a_device(run):
    model = regard.load(run, device="cpu")
    assert model.translate("a b").text == regard.load(run).translate("a b").text
    with pytest.raises(UserError, match="device is meta"):
        regard.load(run, device="meta")
    with pytest.raises(UserError, match="device is meta"):
        regard.load(run, run, device="meta")


@pytest.mark.parametrize(
    "command", ["translate", "classify", "caption", "evaluate", "score", "plot"]
)
def test_every_command_that_runs_a_model_takes_a_device(run, tmp_path, capsys, command):
    for module in (translator, classifier, captioner):
        assert module.device_named is device_named
    if command in RECIPES:  # a run of this task; its model is not read
        run = tmp_path
        recipe = recipes.find(RECIPES[command]).read_text(encoding="utf8")
        (run / "config.yaml").write_text(f"format: 3\n{recipe}", encoding="utf8")
    more = {"caption": ["x.png"], "score": [str(run / "test.tsv")], "plot": ["a b"]}
    arguments = [command, str(run), *more.get(command, []), "--device", "meta"]
    assert main.run(arguments) == 1
    assert "device is meta: expected auto, cpu, cuda" in capsys.readouterr().err
