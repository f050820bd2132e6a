"""How is a report made every night? As a definition for the scheduler that is there already.

Whatever a name or a path holds, it is quoted as the definition's language does: shell, systemd, YAML, Python, JSON.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from croniter import croniter

from sharelag.errors import InputError
from sharelag.reports import notebooks
from sharelag.version import __version__

_EVERY_FIELD = 5


def schedule(
    name: str,
    cron: str,
    kind: str,
    arguments: Sequence[str] = (),
    params: Mapping[str, Any] | None = None,
    out: str | Path = "reports",
) -> str:
    """Define when a report is made.

    Parameters
    ----------
    name : str
        As for `sharelag.reports.report`.
    cron : str
        Five fields: minute, hour, day of the month, month, day of the week.
    kind : str
        One of `KINDS`.
    arguments : sequence of str
        Of ``sharelag report NAME``, such as ``--capture``; none of them a secret.
    params : mapping, optional
        The same as parameters of the notebook, for schedulers that run the notebook themselves.
    out : path
        The folder of reports; in a container it is ``/reports``.

    Returns
    -------
    str
        The definition, with a comment on where it belongs where its language has comments.

    Raises
    ------
    InputError
        The expression is none, or cannot be said in that scheduler's words.
    """
    path = notebooks.notebook(name)
    _check_cron(cron)
    if any(set("\n\r\0") & set(text) for text in [name, str(out), *arguments]):
        raise InputError("a name or a path with a line break cannot be scheduled: rename it")
    place = "/reports" if kind == "kubernetes" else str(Path(out).resolve())
    command = [_program(), "report", name if name == path.stem else str(path.resolve()), *arguments, "--out", place]
    return KINDS[kind](path, " ".join(cron.split()), command, dict(params or {}))


def _check_cron(cron: str) -> None:
    fields = cron.split()
    if len(fields) != _EVERY_FIELD or not croniter.is_valid(cron) or re.search(r"[^\w*/,\- ?#]", " ".join(fields)):
        raise InputError(
            f"{cron!r} is no cron expression of five fields: give minute, hour, day, month and weekday, such as "
            "'30 6 * * *'"
        )


def _program() -> str:
    """The script of this environment: a scheduler has another PATH."""
    script = Path(sys.executable).with_name("sharelag")
    return str(script) if script.exists() else "sharelag"


def _crontab(_: Path, cron: str, command: list[str], __: dict[str, Any]) -> str:
    # In a crontab an unescaped % ends the command.
    return f"# crontab -e\n{cron} {shlex.join(command).replace('%', chr(92) + '%')}\n"


def _systemd(path: Path, cron: str, command: list[str], __: dict[str, Any]) -> str:
    unit = re.sub(r"\W+", "-", path.stem).strip("-") or "report"
    return f"""# ~/.config/systemd/user/sharelag-{unit}.service
[Unit]
Description=sharelag report {_systemd_text(path.stem)}

[Service]
Type=oneshot
ExecStart={" ".join(map(_systemd_quoted, command))}

# ~/.config/systemd/user/sharelag-{unit}.timer, then: systemctl --user enable --now sharelag-{unit}.timer
[Unit]
Description=When to make sharelag report {_systemd_text(path.stem)}

[Timer]
{_calendar(cron)}
Persistent=true

[Install]
WantedBy=timers.target
"""


def _systemd_text(text: str) -> str:
    return text.replace("%", "%%")


def _systemd_quoted(text: str) -> str:
    """systemd.service(5): quotes, backslashes, specifiers and variables."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{inner}"'


def _calendar(cron: str) -> str:
    """Cron's fields as lines of OnCalendar=; a day of the month or a day of the week, as cron has it."""
    minute, hour, day, month, weekday = ([*sorted(values, key=str)] for values in croniter.expand(cron)[0])
    names = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
    if any(isinstance(value, str) and value != "*" for value in [*day, *weekday]):
        raise InputError(f"{cron!r} names a last day, which systemd's calendar cannot: name days by number")

    def some(values: list[Any], name: Callable[[int], str] = lambda value: f"{value:02d}") -> str:
        return "*" if values == ["*"] else ",".join(name(value) for value in sorted(values))

    time = f"{some(hour)}:{some(minute)}:00"
    days = f"*-{some(month)}-{some(day)} {time}"
    week = f"{some(weekday, lambda value: names[value % 7])} *-{some(month)}-* {time}"
    # Cron takes either day where both are named.
    lines = ([week] if weekday != ["*"] else []) + ([days] if day != ["*"] or weekday == ["*"] else [])
    return "\n".join(f"OnCalendar={line}" for line in lines)


def _airflow(path: Path, cron: str, _: list[str], params: dict[str, Any]) -> str:
    name = re.sub(r"\W+", "_", path.stem)
    return f'''"""Makes a report by Airflow: put it into the folder of DAGs; needs apache-airflow-providers-papermill.

The executed notebook is all that Airflow keeps; `sharelag report` makes the page, the mail and the ledger, too.
"""

from datetime import datetime, timezone

from airflow import DAG
from airflow.providers.papermill.operators.papermill import PapermillOperator

with DAG(
    dag_id={f"sharelag_{name}"!r},
    schedule={cron!r},
    start_date=datetime(2025, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
):
    PapermillOperator(
        task_id={name!r},
        input_nb={str(path.resolve())!r},
        output_nb={f"reports/{name}-" + "{{ ts_nodash }}.ipynb"!r},
        parameters={_untemplated(params)!r},
        kernel_name="python3",
    )
'''


def _untemplated(value: Any) -> Any:
    """Airflow reads parameters as Jinja templates; what only looks like one is none."""
    if isinstance(value, str):
        return re.sub(r"\{(?=[{%#])", "{{ '{' }}", value)
    if isinstance(value, Mapping):
        return {key: _untemplated(item) for key, item in value.items()}
    return [_untemplated(item) for item in value] if isinstance(value, list | tuple) else value


def _kubernetes(path: Path, cron: str, command: list[str], __: dict[str, Any]) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40] or "report"
    container = {
        "name": "report",
        "image": f"sharelag:{__version__}",
        "command": ["sharelag"],
        # Kubernetes replaces $(NAME) in arguments; $$ is a dollar.
        "args": [text.replace("$", "$$") for text in command[1:]],
        "volumeMounts": [{"name": "reports", "mountPath": "/reports"}],
        "workingDir": "/reports",
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "reports", "persistentVolumeClaim": {"claimName": "sharelag-reports"}}],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": f"sharelag-{name}"},
        "spec": {
            "schedule": cron,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
        },
    }
    note = "# kubectl apply -f FILE; client properties belong into a Secret, mounted as a file for --command-config.\n"
    return note + yaml.safe_dump(job, sort_keys=False, allow_unicode=True, width=10_000)


def _jupyter(path: Path, cron: str, _: list[str], params: dict[str, Any]) -> str:
    """The body of ``POST /scheduler/job_definitions`` of jupyter-scheduler."""
    # Its parameters are single values; a list of one is as good as what is in it.
    single = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in params.items()
    }
    for name, value in single.items():
        if not isinstance(value, str | int | float):
            raise InputError(f"jupyter-scheduler takes single values only, and {name} has several: use another one")
    definition = {
        "name": f"sharelag {path.stem}",
        "input_uri": path.name,
        "runtime_environment_name": "python3",
        "output_formats": ["ipynb", "html"],
        "parameters": single,
        "schedule": cron,
        "timezone": "Etc/UTC",
    }
    return json.dumps(definition, indent=2, ensure_ascii=False) + "\n"


#: What a definition can be for.
KINDS: dict[str, Callable[[Path, str, list[str], dict[str, Any]], str]] = {
    "crontab": _crontab,
    "systemd": _systemd,
    "airflow": _airflow,
    "kubernetes": _kubernetes,
    "jupyter-scheduler": _jupyter,
}
