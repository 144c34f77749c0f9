"""Summary of a training before it begins, with the reasons why little may be learned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.building.ram import GIB, free_ram, ram_limit
from regard.config import Experiment
from regard.config.data import names_files
from regard.config.unused import Unused, unused_fields
from regard.corpora.splits import Split
from regard.names import Precision
from regard.runs.folder import RunFolder
from regard.runtime import processes
from regard.tasks.training.checks import Finding, length_findings
from regard.tasks.training.cost import num_parameters
from regard.tasks.training.initialisation import Initialisation
from regard.tasks.training.setup import TrainingSetup
from regard.training.parallel.replicas import share_of
from regard.training.peak_memory import peak_of_update
from regard.training.settings import Batches, Period

MAX_SHARE = 2
"""Largest memory of an update, as a share of all memory. The estimate may be too high."""


@dataclass(frozen=True)
class Plan:
    """Summary of a training before it begins."""

    folder: RunFolder
    num_pairs: int
    num_dev: int
    vocabularies: str
    """Sizes of the vocabularies, in words."""
    num_parameters: int
    num_frozen: int
    """Number of frozen parameters."""
    num_frozen_new: int
    """Number of frozen parameters that are newly initialised, not from a run or vectors."""
    precision: Precision
    device: str
    num_processes: int
    left_out: tuple[str, ...]
    """Messages about examples that are not used."""
    unused: tuple[Unused, ...]
    """Options that are set and have no effect."""
    cache_files: tuple[Path, ...]
    """Files of encoded training pairs that were added to the cache."""
    initialisation: Initialisation | None = None
    """Weights taken from another run."""
    findings: tuple[Finding, ...] = ()
    """Reasons why little can be learned."""

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        folder: RunFolder,
        split: Split,
        setup: TrainingSetup,
        device: torch.device,
        precision: Precision,
        *,
        resume: bool,
    ) -> Plan:
        """Return the plan of a training. A training that is resumed has no findings."""
        frozen = [weight for weight in setup.model.parameters() if not weight.requires_grad]
        return cls(
            folder=folder,
            num_pairs=setup.num_pairs,
            num_dev=len(split.dev),
            vocabularies=setup.vocabularies,
            num_parameters=num_parameters(setup.model),
            num_frozen=sum(weight.numel() for weight in frozen),
            num_frozen_new=0 if resume else _num_frozen_new(setup.model, setup),
            precision=precision,
            device=str(device),
            num_processes=processes.number(),
            left_out=split.left_out + setup.left_out,
            unused=unused_fields(experiment),
            cache_files=setup.cache_files,
            initialisation=setup.initialisation,
            findings=() if resume else _findings(experiment, split, setup, device, precision),
        )


def reasons_to_stop(split: Split) -> tuple[Finding, ...]:
    """Return a finding for each reason why a split cannot be used."""
    return tuple(Finding("stop", text) for text in split.unusable)


def _findings(
    experiment: Experiment,
    split: Split,
    setup: TrainingSetup,
    device: torch.device,
    precision: Precision,
) -> tuple[Finding, ...]:
    return (
        *reasons_to_stop(split),
        *setup.findings,
        *_length_findings(experiment, setup.batches),
        *_memory_findings(setup, device, precision),
    )


def _length_findings(experiment: Experiment, batches: Batches) -> tuple[Finding, ...]:
    """Return the findings about the length of a training on data of the user's own, unless it is a
    number of updates."""
    config = experiment.training
    if not names_files(experiment.data) or config.updates or config.validate_every:
        return ()
    updates = Period(1, "epoch").updates(batches, config.accumulate)
    return length_findings(updates, config.epochs, config.patience, config.warmup)


def _memory_findings(
    setup: TrainingSetup, device: torch.device, precision: Precision
) -> tuple[Finding, ...]:
    """Return a finding if an update on the longest batch takes more memory than is free. It stops
    the training if the update takes more than `MAX_SHARE` of all memory, as the operating system
    would end the process."""
    if setup.longest is None:
        return ()
    batch, _ = share_of(setup.longest())
    needed = peak_of_update(setup.model, setup.objective, batch, precision)
    is_gpu = device.type == "cuda"
    free, total = torch.cuda.mem_get_info(device) if is_gpu else (free_ram(), ram_limit())
    if needed <= free:
        return ()
    text = (
        f"an update on the longest batch takes about {needed / GIB:,.1f} GiB of memory "
        f"(estimated), but {free / GIB:,.1f} GiB are free: lower --data.batch-tokens or "
        "--data.batch-sentences, with --training.accumulate for as many pairs in an update"
    )
    return (Finding("stop" if needed > MAX_SHARE * total else "warn", text),)


def _num_frozen_new(model: nn.Module, setup: TrainingSetup) -> int:
    """Return the number of frozen parameters that are newly initialised."""
    if getattr(setup.experiment.model, "vectors", None) is not None:
        return 0
    copied = (
        setup.initialisation.copied + setup.initialisation.by_words if setup.initialisation else ()
    )
    fixed = (each for each in model.named_parameters() if not each[1].requires_grad)
    return sum(weight.numel() for name, weight in fixed if name not in copied)
