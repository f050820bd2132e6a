"""Schedule reports: definitions for crontab, systemd, Airflow, Kubernetes and Jupyter.

Names and paths are quoted by the rules of the definition's language, whatever they contain.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import yaml
from croniter import CroniterBadDateError, croniter

from sharelag.errors import InputError
from sharelag.inputs.open import capture_folder, log_directories
from sharelag.monitoring.checks.rules import parse_yaml
from sharelag.reports import notebooks
from sharelag.version import __version__

#: Parameters that hold a path on this machine.
LOCAL = ("capture", "segments", "rules", "ledger", "previous", "command_config")
#: Schedulers that run the notebook themselves, so that only the executed notebook is produced.
NOTEBOOK_ONLY = ("airflow", "jupyter-scheduler")
_UTC = "Etc/UTC"
#: Files mounted into the container: kind and name of the object, folder, file.
_MOUNTED = {
    "command_config": ("secret", "sharelag-client", "/etc/sharelag/client", "client.properties"),
    "rules": ("configMap", "sharelag-rules", "/etc/sharelag/rules", "rules.yaml"),
}
#: Longest name of a CronJob; Kubernetes appends to it for jobs and pods.
_LONGEST = 52
_OUT = "/reports"


@dataclass(frozen=True)
class Job:
    """A report to be made regularly."""

    path: Path  # of the notebook
    is_own: bool  # the user's notebook, not one of sharelag's
    cron: str  # as `sharelag.reports.schedules.cron_for_all` writes it
    zone: str | None  # None: not specified
    params: Mapping[str, Any]
    options: Sequence[str]  # of ``sharelag report``, except parameters and --out
    out: Path  # absolute

    def command(self, params: Mapping[str, Any], out: str) -> list[str]:
        """Return the arguments of ``sharelag``."""
        name = str(self.path.resolve()) if self.is_own else self.path.stem
        pairs = [word for key, value in params.items() for word in ("-p", key, as_word(value))]
        return ["report", name, *pairs, *self.options, "--out", out]

    def here(self) -> list[str]:
        """Return the command for this machine, with the full path of this environment's script."""
        script = Path(sys.executable).with_name("sharelag")
        words = self.command(self.params, str(self.out))
        return [str(script) if script.exists() else "sharelag", *words]


def absolute(params: Mapping[str, Any]) -> dict[str, Any]:
    """Make the paths among the parameters absolute: notebooks and schedulers run elsewhere."""
    return {name: _absolute(name, value) for name, value in params.items()}


def as_word(value: Any) -> str:
    """Write a value so that `from_word` reads the same value."""
    is_plain = isinstance(value, str) and from_word(value) == value
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def from_word(text: str) -> Any:
    """Parse an argument as YAML, so 3600 is a number; mappings and times stay texts."""
    try:
        value, _ = parse_yaml(text, "")
    except InputError:
        return text
    quoted = isinstance(value, str) and text[:1] in "\"'"
    is_single = value is None or isinstance(value, bool | int | float | list)
    return value if quoted or is_single else text


def _absolute(name: str, value: Any) -> Any:
    # Raw records may also be the name of a table or a URL.
    is_place = name in LOCAL or (name == "raw" and Path(str(value)).exists())
    if not (is_place and isinstance(value, str) and value):
        return value
    if name == "segments":
        places = log_directories(value)
    else:
        places = (capture_folder(value) if name == "capture" else Path(value),)
    return ",".join(str(place.expanduser().resolve()) for place in places)


def schedule(
    name: str,
    cron: str,
    kind: str,
    params: Mapping[str, Any] | None = None,
    out: str | Path = "reports",
    *,
    zone: str | None = None,
    options: Sequence[str] = (),
) -> str:
    """Write the definition of a scheduled report.

    Parameters
    ----------
    name : str
        As for `sharelag.reports.report`.
    cron : str
        Five fields: minute, hour, day of the month, month, day of the week.
    kind : str
        One of `KINDS`.
    params : mapping, optional
        Parameters of the notebook, without secrets.
    out : path
        The folder of reports; in a container it is ``/reports``.
    zone : str, optional
        A time zone such as Europe/Berlin. By default crontab and systemd use the machine's, all
        others UTC.
    options : sequence of str
        Options of ``sharelag report``, such as ``--keep 30``; not for `NOTEBOOK_ONLY`.

    Returns
    -------
    str
        The definition, with comments on where to put it if its language has comments; else see
        `note`.

    Raises
    ------
    InputError
        The expression is not valid, the notebook has no such parameter, or the scheduler cannot
        express something.
    """
    path = notebooks.notebook(name)
    if kind not in KINDS:
        raise InputError(f"unknown scheduler {kind!r}: choose one of {', '.join(KINDS)}")
    params = notebooks.check_parameters(path, params or {})
    texts = [name, str(out), *options, *_texts(params)]
    if any(set("\n\r\0") & set(text) for text in texts):
        raise InputError("a name or a path with a line break cannot be scheduled: rename it")
    if options and kind in NOTEBOOK_ONLY:
        raise InputError(
            f"{kind} runs the notebook itself and cannot use {' '.join(options)}: remove it, or "
            "choose another scheduler"
        )
    job = Job(
        path=path,
        is_own=name != path.stem,
        cron=cron_for_all(cron),
        zone=check_zone(zone),
        params=absolute(params),
        options=options,
        out=Path(out).resolve(),
    )
    return KINDS[kind](job)


def note(kind: str, name: str) -> str | None:
    """Return the notes that a definition without comments cannot include."""
    if kind != "jupyter-scheduler":
        return None
    path = notebooks.notebook(name)
    return (
        "this is the body of POST /scheduler/job_definitions; input_uri is relative to the root "
        f"folder of the Jupyter server: copy {path.resolve()} there. The server stores the results "
        "itself, and nothing is written to --out; GET /scheduler/runtime_environments lists the "
        "choices of runtime_environment_name"
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from (*_texts(name), *_texts(item))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _crontab(job: Job) -> str:
    # In a crontab an unescaped % ends the command.
    line = f"{job.cron} {shlex.join(job.here()).replace('%', chr(92) + '%')}\n"
    if job.zone is None:
        return f"# crontab -e; times are in the machine's time zone\n{line}"
    about = (
        "# crontab -e; CRON_TZ applies to all lines below it. cronie (Fedora, RHEL, SUSE, Arch) "
        "supports it;\n# Debian's cron does not and uses the machine's time zone: "
        "use a systemd timer there\n"
    )
    return f"{about}CRON_TZ={job.zone}\n{line}"


def _systemd(job: Job) -> str:
    unit = "sharelag-" + (re.sub(r"\W+", "-", job.path.stem).strip("-") or "report")
    return f"""# ~/.config/systemd/user/{unit}.service
[Unit]
Description=sharelag report {_systemd_text(job.path.stem)}

[Service]
Type=oneshot
ExecStart={" ".join(map(_systemd_quoted, job.here()))}

# ~/.config/systemd/user/{unit}.timer, then: systemctl --user enable --now {unit}.timer
# A user's units run only while the user is logged in, unless you call: loginctl enable-linger
# Times are in {job.zone or "the machine's time zone"}.
[Unit]
Description=Schedule of sharelag report {_systemd_text(job.path.stem)}

[Timer]
{calendar(job.cron, job.zone)}
Persistent=true

[Install]
WantedBy=timers.target
"""


def _systemd_text(text: str) -> str:
    return text.replace("%", "%%")


def _systemd_quoted(text: str) -> str:
    """Quote an argument by systemd.service(5): quotes, backslashes, specifiers, variables."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{inner}"'


def _airflow(job: Job) -> str:
    name = re.sub(r"\W+", "_", job.path.stem)
    # All fields are templates; only the end of this one is meant to be.
    output = _escape_template(str(job.out)) + f"/{name}-" + "{{ ts_nodash }}.ipynb"
    return f'''"""Run a report with Airflow: put this file into the folder of DAGs.

It needs apache-airflow-providers-papermill. Airflow keeps the executed notebook only; to get the
page, the mail and the ledger as well, run `sharelag report`. The notebook, its inputs and the
folder of output_nb must exist on the worker.
"""

import pendulum
from airflow import DAG
from airflow.providers.papermill.operators.papermill import PapermillOperator

with DAG(
    dag_id={f"sharelag_{name}"!r},
    schedule={job.cron!r},
    # The schedule uses the time zone of this date.
    start_date=pendulum.datetime(2025, 1, 1, tz={job.zone or _UTC!r}),
    catchup=False,
    max_active_runs=1,
):
    PapermillOperator(
        task_id={name!r},
        input_nb={_escape_template(str(job.path.resolve()))!r},
        output_nb={output!r},
        parameters={_escape_template(dict(job.params))!r},
        kernel_name="python3",
    )
'''


def _escape_template(value: Any) -> Any:
    """Escape what looks like a Jinja template: Airflow renders parameters."""
    if isinstance(value, str):
        return re.sub(r"\{(?=[{%#])", "{{ '{' }}", value)
    if isinstance(value, Mapping):
        return {key: _escape_template(item) for key, item in value.items()}
    return [_escape_template(item) for item in value] if isinstance(value, list | tuple) else value


def _jupyter(job: Job) -> str:
    """Write the body of ``POST /scheduler/job_definitions`` of jupyter-scheduler."""
    # Its parameters are single values; a list of one item is passed as that item.
    single = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in job.params.items()
    }
    for name, value in single.items():
        if not isinstance(value, str | int | float):
            raise InputError(
                f"jupyter-scheduler accepts single values only, and {name} has several: "
                "choose another scheduler"
            )
    definition = {
        "name": f"sharelag {job.path.stem}",
        "input_uri": job.path.name,
        "runtime_environment_name": "python3",
        "output_formats": ["ipynb", "html"],
        "parameters": single,
        "schedule": job.cron,
        "timezone": job.zone or _UTC,
    }
    return json.dumps(definition, indent=2, ensure_ascii=False) + "\n"


def _kubernetes(job: Job) -> str:
    """Write a CronJob as YAML, with comments on what it requires."""
    _require_cluster(job)
    params = dict(job.params)
    mounts: list[dict[str, Any]] = [{"name": "reports", "mountPath": _OUT}]
    volumes: list[dict[str, Any]] = [
        {"name": "reports", "persistentVolumeClaim": {"claimName": "sharelag-reports"}}
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
        made = "secret generic" if kind == "secret" else "configmap"
        yours = f"--from-file={file}=FILE    (your {Path(params[name]).name})"
        steps.append(f"kubectl create {made} {called} {yours}")
        params[name] = f"{place}/{file}"
        mounts.append({"name": called, "mountPath": place, "readOnly": True})
        about = {"secretName" if kind == "secret" else "name": called}
        volumes.append({"name": called, kind: about})
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
            "timeZone": job.zone or _UTC,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
        },
    }
    steps.append("Then: kubectl apply -f FILE")
    comment = "".join(f"# {' '.join(step.splitlines())}\n" for step in steps)
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


#: The supported schedulers.
KINDS: dict[str, Callable[[Job], str]] = {
    "crontab": _crontab,
    "systemd": _systemd,
    "airflow": _airflow,
    "kubernetes": _kubernetes,
    "jupyter-scheduler": _jupyter,
}


_EVERY_FIELD = 5
_SUNDAY = 7
_DAY, _WEEKDAY = 2, 4
_NAMES = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_ALLOWED = re.compile(
    r"(?:[\d*,/-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)+",
    re.I,
)
_EXTENSION = re.compile(r"[?#LW]", re.I)
#: A part of a field that all schedulers read the same way: step, number, ascending range.
_PLAIN = re.compile(r"\*(?:/\d+)?|(\d+)(?:-(\d+)(?:/\d+)?)?")


def cron_for_all(cron: str) -> str:
    """Rewrite five fields: numbers for names, 0 for Sunday, lists for ranges that wrap.

    An invalid expression, or one that never matches or that schedulers interpret differently, is an
    `InputError`.
    """
    fields = cron.split()
    # Letters in names of months and days are not extensions.
    without_names = [re.sub(r"[a-z]{3}", "", field, flags=re.I) for field in fields]
    if len(fields) == _EVERY_FIELD and any(map(_EXTENSION.search, without_names)):
        raise InputError(
            f"{cron!r} uses L, W, # or ?, which some schedulers do not support or read "
            "differently: write the days as numbers"
        )
    whole = len(fields) == _EVERY_FIELD and all(
        _ALLOWED.fullmatch(field) and (field == "*" or "*" not in field.split(","))
        for field in fields
    )
    if not whole or not croniter.is_valid(" ".join(fields)):
        raise InputError(
            f"{cron!r} is not a cron expression of five fields: write minute, hour, day, month "
            "and weekday, such as '30 6 * * *'"
        )
    expanded = croniter.expand(" ".join(fields))[0]
    days = (fields[_DAY], fields[_WEEKDAY])
    if "*" not in days and any(one.startswith("*") for one in days):
        raise InputError(
            f"{cron!r} combines a step such as */2 with other days, which some schedulers join "
            "by 'and' and some by 'or': write the days as numbers"
        )
    plain = " ".join(
        field if _is_plain(field, place) else _list_values(expanded[place])
        for place, field in enumerate(fields)
    )
    try:
        croniter(plain, datetime(2025, 1, 1, tzinfo=UTC)).get_next()
    except CroniterBadDateError:
        raise InputError(f"{cron!r} never matches: choose another day") from None
    return plain


def check_zone(zone: str | None) -> str | None:
    """Return a time zone if it is a name in the IANA database, such as Europe/Berlin."""
    if zone is not None and zone not in available_timezones():
        raise InputError(
            f"unknown time zone {zone!r}: write a name such as Europe/Berlin or Etc/UTC"
        )
    return zone


def calendar(cron: str, zone: str | None = None) -> str:
    """Write an expression of `cron_for_all` as ``OnCalendar=`` lines; see systemd.time(7)."""
    minute, hour, day, month, weekday = croniter.expand(cron)[0]

    def some(values: list[Any], name: Callable[[int], str] = lambda value: f"{value:02d}") -> str:
        return "*" if values == ["*"] else ",".join(name(value) for value in sorted(values))

    time = f"{some(hour)}:{some(minute)}:00" + (f" {zone}" if zone else "")
    days = f"*-{some(month)}-{some(day)} {time}"
    week = f"{some(weekday, lambda value: _NAMES[value])} *-{some(month)}-* {time}"
    # Cron matches either day if both are set.
    lines = [week] * (weekday != ["*"]) + [days] * (day != ["*"] or weekday == ["*"])
    return "\n".join(f"OnCalendar={line}" for line in lines)


def _is_plain(field: str, place: int) -> bool:
    for part in field.split(","):
        found = _PLAIN.fullmatch(part)
        if not found:
            return False
        ends = [int(end) for end in found.groups() if end is not None]
        if ends != sorted(ends) or (place == _WEEKDAY and _SUNDAY in ends):
            return False
    return True


def _list_values(values: list[Any]) -> str:
    # croniter counts the days of the week from 0, Sunday, to 6.
    return ",".join(str(value) for value in sorted(values)) if values != ["*"] else "*"
