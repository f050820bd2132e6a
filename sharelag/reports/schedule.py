"""Schedule reports: definitions for the scheduler that is there already.

Whatever a name or a path holds, it is quoted as the definition's language does: shell, systemd,
YAML, Python, JSON.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sharelag.errors import InputError
from sharelag.reports import notebooks
from sharelag.reports.cron import calendar, cron_for_all, zone_checked
from sharelag.reports.job import Job, absolute
from sharelag.reports.kubernetes import cron_job

#: Schedulers that run the notebook by themselves, so that nothing but papermill's part of a report
#: is made.
NOTEBOOK_ONLY = ("airflow", "jupyter-scheduler")
_UTC = "Etc/UTC"


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
    """Define when a report is made.

    Parameters
    ----------
    name : str
        As for `sharelag.reports.report`.
    cron : str
        Five fields: minute, hour, day of the month, month, day of the week.
    kind : str
        One of `KINDS`.
    params : mapping, optional
        Parameters of the notebook, none of them a secret.
    out : path
        The folder of reports; in a container it is ``/reports``.
    zone : str, optional
        A time zone such as Europe/Berlin. Else crontab and systemd go by the machine's, all others
        by UTC.
    options : sequence of str
        Of ``sharelag report``, such as ``--keep 30``; not for `NOTEBOOK_ONLY`.

    Returns
    -------
    str
        The definition, with a comment on where it belongs where its language has comments; else see
        `note`.

    Raises
    ------
    InputError
        The expression is none, or something cannot be said in that scheduler's words.
    """
    path = notebooks.notebook(name)
    texts = [name, str(out), *options, *_texts(params or {})]
    if any(set("\n\r\0") & set(text) for text in texts):
        raise InputError("a name or a path with a line break cannot be scheduled: rename it")
    if options and kind in NOTEBOOK_ONLY:
        raise InputError(
            f"{' '.join(options)} is for sharelag report, and {kind} runs the notebook by itself: leave it out, or "
            "choose another scheduler"
        )
    is_own, place = name != path.stem, Path(out).resolve()
    return KINDS[kind](
        Job(
            path,
            is_own,
            cron_for_all(cron),
            zone_checked(zone),
            absolute(params or {}),
            options,
            place,
        )
    )


def note(kind: str, name: str) -> str | None:
    """What a definition cannot say itself, having no comments."""
    if kind != "jupyter-scheduler":
        return None
    path = notebooks.notebook(name)
    return (
        "this is the body of POST /scheduler/job_definitions; input_uri is looked for in the root folder of the "
        f"Jupyter server: copy {path.resolve()} there. The server keeps what it makes by itself, nothing is written to "
        "--out; runtime_environment_name is one that GET /scheduler/runtime_environments lists"
    )


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value."""
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
        return f"# crontab -e; the times are in the time zone of the machine\n{line}"
    about = (
        "# crontab -e; CRON_TZ is for all lines below it. cronie (Fedora, RHEL, SUSE, Arch) knows it, Debian's cron "
        "does not and goes by the machine's time zone: use a systemd timer there\n"
    )
    return f"{about}CRON_TZ={job.zone}\n{line}"


def _systemd(job: Job) -> str:
    unit = re.sub(r"\W+", "-", job.path.stem).strip("-") or "report"
    return f"""# ~/.config/systemd/user/sharelag-{unit}.service
[Unit]
Description=sharelag report {_systemd_text(job.path.stem)}

[Service]
Type=oneshot
ExecStart={" ".join(map(_systemd_quoted, job.here()))}

# ~/.config/systemd/user/sharelag-{unit}.timer, then: systemctl --user enable --now sharelag-{unit}.timer
# Units of a user run only while the user is logged in, unless: loginctl enable-linger
# The times are {f"in {job.zone}" if job.zone else "in the time zone of the machine"}.
[Unit]
Description=When to make sharelag report {_systemd_text(job.path.stem)}

[Timer]
{calendar(job.cron, job.zone)}
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


def _airflow(job: Job) -> str:
    name = re.sub(r"\W+", "_", job.path.stem)
    # All fields are templates; of this one only the end is meant to be.
    output = _untemplated(str(job.out)) + f"/{name}-" + "{{ ts_nodash }}.ipynb"
    return f'''"""Makes a report by Airflow: put it into the folder of DAGs; needs apache-airflow-providers-papermill.

The executed notebook is all that Airflow keeps; `sharelag report` makes the page, the mail and the ledger, too.
Notebook, parameters and the folder of output_nb, which has to exist, are looked for on the worker.
"""

import pendulum
from airflow import DAG
from airflow.providers.papermill.operators.papermill import PapermillOperator

with DAG(
    dag_id={f"sharelag_{name}"!r},
    schedule={job.cron!r},
    # The schedule goes by the time zone of this.
    start_date=pendulum.datetime(2025, 1, 1, tz={job.zone or _UTC!r}),
    catchup=False,
    max_active_runs=1,
):
    PapermillOperator(
        task_id={name!r},
        input_nb={_untemplated(str(job.path.resolve()))!r},
        output_nb={output!r},
        parameters={_untemplated(dict(job.params))!r},
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


def _jupyter(job: Job) -> str:
    """The body of ``POST /scheduler/job_definitions`` of jupyter-scheduler."""
    # Its parameters are single values; a list of one is as good as what is in it.
    single = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in job.params.items()
    }
    for name, value in single.items():
        if not isinstance(value, str | int | float):
            raise InputError(
                f"jupyter-scheduler takes single values only, and {name} has several: use another one"
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


#: What a definition can be for.
KINDS: dict[str, Callable[[Job], str]] = {
    "crontab": _crontab,
    "systemd": _systemd,
    "airflow": _airflow,
    "kubernetes": cron_job,
    "jupyter-scheduler": _jupyter,
}
