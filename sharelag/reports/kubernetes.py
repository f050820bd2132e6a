"""CronJobs of Kubernetes; what they need of this machine's files is mounted, or refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sharelag.errors import InputError
from sharelag.reports.job import Job
from sharelag.version import __version__

#: Files that the container gets: of what kind, by which name, where.
_MOUNTED = {
    "command_config": ("secret", "sharelag-client", "/etc/sharelag/client", "client.properties"),
    "rules": ("configMap", "sharelag-rules", "/etc/sharelag/rules", "rules.yaml"),
}
#: A CronJob's name has so many characters at most, so that those of its jobs and pods have room.
_LONGEST = 52
_OUT = "/reports"


def cron_job(job: Job) -> str:
    """A CronJob as YAML, with a comment on what has to be there.

    Raises
    ------
    InputError
        The report is of something on this machine, which no container has.
    """
    _require_cluster(job)
    params = dict(job.params)
    mounts: list[dict[str, Any]] = [{"name": "reports", "mountPath": _OUT}]
    volumes: list[dict[str, Any]] = [
        {"name": "reports", "persistentVolumeClaim": {"claimName": "sharelag-reports"}},
    ]
    steps = [
        "The image has to be one that your nodes can get; it is made by: FROM python:3.11-slim, then",
        f"  RUN pip install 'sharelag[report]=={__version__}'",
        "  and, with apt-get, chromium for pictures of charts and a Java runtime for the engine spark.",
        f"The volume claim sharelag-reports, mounted at {_OUT}, keeps the reports.",
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
            f"{job.path.name} is a notebook of this machine, which the container does not have: put it into the image, "
            "and write the definition for a report that comes with sharelag as a pattern"
        )
    for name in ("capture", "segments", "previous", "raw"):
        place = str(job.params.get(name) or "")
        if place and (name != "raw" or place.startswith("/")):
            raise InputError(
                f"{name}={place} is a place of this machine, which the container does not have: report on a cluster "
                "(--bootstrap-server), or use another scheduler"
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
