"""Workers of a sweep on a Ray cluster: each job is a trial of Ray Tune."""

from __future__ import annotations

import logging
import os
import queue
import shutil
import socket
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

import ray
from ray import tune
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from regard.cluster.connection import check_node, connected
from regard.errors import UserError
from regard.runs.sweep_record import SWEEP, SweepRecord
from regard.studies.sweep import INTERRUPTED, Job, JobResult, run_job

log = logging.getLogger(__name__)

FOLDER = "ray"
"""Name of the folder with Ray Tune's own files, in the folder of a running sweep."""
MAX_FAILURES = 3
"""Largest number of failed workers or nodes for each job. The job continues on another node."""
ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
"""Settings of Ray Tune. Values that the user has set take precedence."""


@dataclass(frozen=True)
class RayWorkers:
    """Workers on the nodes of a Ray cluster."""

    address: str
    """Address as of `ray.init`: "local" starts Ray on this machine, "auto" finds a running one."""
    num_threads: int = 1
    num_gpus: float = 0
    """Number of GPUs of each job."""
    num_workers: int | None = None
    """Largest number of jobs at a time; None for as many as the cluster's resources allow."""

    def run(
        self, jobs: Sequence[Job], arguments: Sequence[str]
    ) -> Generator[JobResult, None, None]:
        """Yield the results as jobs end, as in `Workers`."""
        if not jobs:
            return
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a failed worker is reported here
        with connected(self.address, "--address"):
            check_node(self.num_threads, self.num_gpus, "a training", "--threads or --gpus")
            signal = _signal()
            observer = Observer(jobs)
            thread = Thread(target=self._fit, args=(jobs, arguments, signal, observer))
            thread.start()
            try:
                for _ in jobs:
                    result = observer.results.get()
                    if isinstance(result, BaseException):
                        raise result
                    yield result
            finally:
                observer.stop()
                signal.set()
                thread.join()

    def _fit(
        self, jobs: Sequence[Job], arguments: Sequence[str], signal: Signal, observer: Observer
    ) -> None:
        """Run Ray Tune until all jobs have ended. Its own handler of Ctrl-C is for main threads."""
        storage = (jobs[0].folder.parent / FOLDER).resolve()
        trial = tune.with_parameters(
            train_on_node,
            jobs=tuple(jobs),
            arguments=tuple(arguments),
            num_threads=self.num_threads,
            directory=Path.cwd(),
            signal=signal,
        )
        try:
            tune.Tuner(
                tune.with_resources(trial, {"cpu": self.num_threads, "gpu": self.num_gpus}),
                param_space={"number": tune.grid_search(list(range(len(jobs))))},
                tune_config=tune.TuneConfig(
                    max_concurrent_trials=self.num_workers, reuse_actors=True
                ),
                run_config=tune.RunConfig(
                    name="trials",
                    storage_path=str(storage),
                    failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
                    callbacks=[observer],
                    stop=Stopper(observer),
                    verbose=0,
                ),
            ).fit()
        except Exception as error:  # noqa: BLE001 - raised in the main thread
            observer.results.put(error)
        finally:
            shutil.rmtree(storage, ignore_errors=True)


class Observer(tune.Callback):
    """Receiver of the results of trials."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self.results: queue.Queue[JobResult | BaseException] = queue.Queue()
        self._running: set[str] = set()
        self._awaited: set[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Ray Tune saves its callbacks, and no sweep restores them."""
        return {}

    def stop(self) -> None:
        """End the sweep as soon as the jobs that are running now have ended."""
        self._awaited = set(self._running)

    @property
    def is_stopped(self) -> bool:
        """Whether the sweep was stopped and all jobs have saved their trainings."""
        return self._awaited is not None and not self._awaited & self._running

    def on_trial_start(self, trial: Any, **_: Any) -> None:  # type: ignore[override]
        self._running.add(trial.trial_id)

    def on_trial_complete(self, trial: Any, **_: Any) -> None:  # type: ignore[override]
        self._running.discard(trial.trial_id)
        job = self._jobs[trial.config["number"]]
        self.results.put(trial.last_result.get("result", JobResult(job, INTERRUPTED)))

    def on_trial_recover(self, trial: Any, **_: Any) -> None:  # type: ignore[override]
        self._running.discard(trial.trial_id)
        name = self._jobs[trial.config["number"]].folder.name
        log.warning("the worker or node of %s failed: another one continues it", name)

    def on_trial_error(self, trial: Any, **_: Any) -> None:  # type: ignore[override]
        self._running.discard(trial.trial_id)
        job = self._jobs[trial.config["number"]]
        lines = str(trial.get_error() or "").strip().splitlines() or ["no message"]
        self.results.put(JobResult(job, f"the worker failed: {lines[-1]}"))


class Stopper(tune.Stopper):
    """End of the trials after Ctrl-C."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def __call__(self, _trial_id: str, _result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._observer.is_stopped


class SignalState:
    """State of a signal, in a process that all nodes can query."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


@dataclass(frozen=True)
class Signal:
    """Signal to stop jobs on all nodes. It is set if the process of the sweep has ended."""

    actor: Any

    def set(self) -> None:
        ray.get(self.actor.set.remote())

    def is_set(self) -> bool:
        try:
            return bool(ray.get(self.actor.is_set.remote()))
        except ray.exceptions.RayError:
            return True


def _signal() -> Signal:
    node = ray.get_runtime_context().get_node_id()
    strategy = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    actor: Any = ray.remote(SignalState)
    return Signal(actor.options(num_cpus=0, scheduling_strategy=strategy).remote())


def train_on_node(
    config: dict[str, Any],
    jobs: Sequence[Job],
    arguments: Sequence[str],
    num_threads: int,
    directory: Path,
    signal: Signal,
) -> dict[str, Any]:
    """Run a job on a node, in the folder where the sweep was started."""
    job, node = jobs[config["number"]], socket.gethostname()
    try:
        os.chdir(directory)
        record = SweepRecord.read(job.folder.parent)
        has_sweep = record is not None and record.arguments == tuple(arguments)
    except (OSError, UserError):
        has_sweep = False
    if not has_sweep:
        place = (directory / job.folder).parent
        problem = (
            f"node {node} does not have {place / SWEEP}: all nodes need the same folders, as on a "
            "shared file system"
        )
        return {"result": JobResult(job, problem)}
    result = run_job(job, arguments, num_threads, signal)
    if result.problem and result.problem != INTERRUPTED:
        result = replace(result, problem=f"node {node}: {result.problem}")
    return {"result": result}
