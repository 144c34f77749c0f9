"""Deployment of a service on a cluster, with Ray Serve: each replica is a process with all models.

    serve run regard.cluster.deployment:application runs=/shared/runs/letters replicas=4

Ray distributes the requests over the replicas. Each replica has its own queue, batches and bounds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray.serve
from starlette.types import ASGIApp

from regard.errors import UserError
from regard.serving import logs
from regard.serving.api.limits import Limits
from regard.serving.app import build_app
from regard.serving.service import Access, Service, served_runs

WAITING = 2
"""Requests beyond the queue's number of texts that Ray sends to a replica, so that the replica
answers them with status 429."""
SETTINGS = ("runs", "replicas", "cpus", "gpus", "device", "token", "hosts")
"""Settings of `application`."""


def deployment(
    runs: Sequence[str | Path],
    limits: Limits | None = None,
    access: Access | None = None,
    device: str = "auto",
    **options: Any,
) -> ray.serve.Application:
    """Return a deployment of runs, for `ray.serve.run`. All nodes need the run folders at the same
    paths. `options` are those of `ray.serve.deployment`, such as `num_replicas`,
    `autoscaling_config` and `ray_actor_options`."""
    limits = limits or Limits()
    paths = [Path(run).absolute() for run in runs]
    served_runs(paths, device, limits)  # errors of the folders are raised here

    def build() -> ASGIApp:
        logs.install()
        service = Service(served_runs(paths, device, limits), limits, access)
        return build_app(service, waits_for_models=True)

    class Regard:
        """A replica."""

    options = {
        "name": "regard",
        "max_ongoing_requests": limits.queue + WAITING,
        "graceful_shutdown_timeout_s": limits.drain,
        **options,
    }
    return ray.serve.deployment(**options)(ray.serve.ingress(build)(Regard)).bind()


def application(settings: Mapping[str, str]) -> ray.serve.Application:
    """Return the deployment for `serve run` and for configuration files of Ray Serve. UserError for
    an unknown setting.

    `runs` are folders, separated by commas. Further settings: `replicas` (1), `cpus` (1) and `gpus`
    (0) of each replica, `device` (auto), `token` (the environment variable
    REGARD_TOKEN), and `hosts`, separated by commas."""
    for name in settings:
        if name not in SETTINGS:
            raise UserError(f"unknown setting {name!r}: expected {', '.join(SETTINGS)}")
    if not settings.get("runs"):
        raise UserError("no runs: expected runs=FOLDER or runs=FOLDER,FOLDER")
    hosts = tuple(filter(None, settings.get("hosts", "").split(",")))
    try:
        replicas = int(settings.get("replicas", "1"))
        resources = {
            "num_cpus": float(settings.get("cpus", "1")),
            "num_gpus": float(settings.get("gpus", "0")),
        }
    except ValueError as error:
        raise UserError(f"replicas, cpus and gpus must be numbers: {error}") from error
    return deployment(
        settings["runs"].split(","),
        access=Access(settings.get("token") or os.environ.get("REGARD_TOKEN") or None, hosts),
        device=settings.get("device", "auto"),
        num_replicas=replicas,
        ray_actor_options=resources,
    )
