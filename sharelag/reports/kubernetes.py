"""Kubernetes CronJobs; local files that they need are mounted, or rejected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sharelag.errors import InputError
from sharelag.reports.job import Job
from sharelag.version import __version__

#: Files mounted into the container: kind and name of the object, folder, file.
_MOUNTED = {
    "command_config": ("secret", "sharelag-client", "/etc/sharelag/client", "client.properties"),
    "rules": ("configMap", "sharelag-rules", "/etc/sharelag/rules", "rules.yaml"),
}
#: Longest name of a CronJob; Kubernetes appends to it for jobs and pods.
_LONGEST = 52
_OUT = "/reports"


def cron_job(job: Job) -> str:
    """Write a CronJob as YAML, with comments on what it requires.

    Raises
    ------
    InputError
        The report needs something on this machine that the container does not have.
    """
    _require_cluster(job)
    params = dict(job.params)
    mounts: list[dict[str, Any]] = [{"name": "reports", "mountPath": _OUT}]
    volumes: list[dict[str, Any]] = [
        {"name": "reports", "persistentVolumeClaim": {"claimName": "sharelag-reports"}},
    ]
    steps = [
        "Build the image from python:3.11-slim and push it to a registry of your nodes:",
        f"  RUN pip install 'sharelag[report]=={__version__}'",
        "  and, with apt-get, chromium for images of charts and a Java runtime for Spark.",
        f"The volume claim sharelag-reports, mounted at {_OUT}, stores the reports.",
    ]
    for name, (kind, called, place, file) in _MOUNTED.items():
        if name not in params:
            continue
        steps.append(
            f"kubectl create {'secret generic' if kind == 'secret' else 'configmap'} {called} "
            f"--from-file={file}=FILE    (your {Path(params[name]).name})"
        )
        params[name] = f"{place}/{file}"
        mounts.append({"name": called, "mountPath": place, "readOnly": True})
        key = (
            {"secret": {"secretName": called}}
            if kind == "secret"
            else {"configMap": {"name": called}}
        )
        volumes.append({"name": called, **key})
    pod = {
        "restartPolicy": "Never",
        "containers": [_container(job.command(params, _OUT), mounts)],
        "volumes": volumes,
    }
    name = re.sub(r"[^a-z0-9]+", "-", f"sharelag-{job.path.stem.lower()}")[:_LONGEST].strip("-")
    definition = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {
            "schedule": job.cron,
            "timeZone": job.zone or "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
        },
    }
    comment = "".join(f"# {_one_line(step)}\n" for step in [*steps, "Then: kubectl apply -f FILE"])
    return comment + yaml.safe_dump(definition, sort_keys=False, allow_unicode=True, width=10_000)


def _require_cluster(job: Job) -> None:
    if job.is_own:
        raise InputError(
            f"the container does not have {job.path.name}, a notebook on this machine: copy it "
            "into the image, and adapt the definition of a report that comes with sharelag"
        )
    for name in ("capture", "segments", "previous", "raw"):
        place = str(job.params.get(name) or "")
        if place and (name != "raw" or place.startswith("/")):
            raise InputError(
                f"the container does not have {name}={place}, a path on this machine: report on "
                "a cluster (--bootstrap-server), or use another scheduler"
            )


def _container(command: list[str], mounts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "report",
        "image": f"sharelag:{__version__}",
        "command": ["sharelag"],
        # Kubernetes replaces $(NAME) in arguments; $$ is a dollar.
        "args": [text.replace("$", "$$") for text in command],
        "volumeMounts": mounts,
        "workingDir": _OUT,
    }


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
