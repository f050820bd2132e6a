"""Definitions for schedulers: they parse, and mean what was asked for, whatever a name holds."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from croniter import croniter

from sharelag.cli.report import _plain
from sharelag.errors import InputError
from sharelag.reports.schedule import KINDS, schedule
from tests.command import sharelag

HOSTILE = """a$b%c"d'e\\f {{ g }} {% h %} $(i) #j; k: - l 🦜"""
CRON = "30 6 * * 1-5"


def defined(kind: str, cron: str = CRON, group: str = HOSTILE, name: str = "daily") -> str:
    return schedule(name, cron, kind, ["-p", "group", json.dumps([group])], {"group": [group]}, "/var/re ports")


def words(group: str = HOSTILE) -> list[str]:
    return ["report", "daily", "-p", "group", json.dumps([group]), "--out"]


def test_crontab() -> None:
    comment, line = defined("crontab").splitlines()
    assert comment.startswith("#")
    fields = line.split(" ", 5)
    assert " ".join(fields[:5]) == CRON
    # cron(8): an escaped % is one, an unescaped one ends the command.
    assert re.search(r"(?<!\\)%", fields[5]) is None
    assert shlex.split(fields[5].replace("\\%", "%"))[1:] == [*words(), "/var/re ports"]


def units(text: str) -> dict[str, configparser.ConfigParser]:
    found = {}
    for part in re.split(r"^(?=# ~/)", text, flags=re.MULTILINE)[1:]:
        name = re.search(r"user/(\S+?)[,\s]", part)
        assert name
        found[name[1]] = configparser.ConfigParser(interpolation=None, strict=False)
        found[name[1]].optionxform = str  # type: ignore[assignment, method-assign]
        found[name[1]].read_string(part)
    return found


def test_systemd() -> None:
    found = units(defined("systemd"))
    assert list(found) == ["sharelag-daily.service", "sharelag-daily.timer"]
    command = found["sharelag-daily.service"]["Service"]["ExecStart"]
    unquoted = shlex.split(command.replace("$$", "$").replace("%%", "%"))
    assert unquoted[1:] == [*words(), "/var/re ports"]
    assert re.search(r"(?<!%)%(?!%)|(?<!\$)\$(?!\$)", command) is None
    assert found["sharelag-daily.timer"]["Timer"]["OnCalendar"] == "Mon,Tue,Wed,Thu,Fri *-*-* 06:30:00"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
@pytest.mark.parametrize(
    "cron", [CRON, "0 0 1,15 * *", "*/20 8-18 * 3,9 *", "5 4 * * 0", "5 4 * * 7", "0 12 31 1 *", "7 3 13 * 5"]
)
def test_systemds_calendar_says_the_same_as_cron(cron: str) -> None:
    lines = re.findall(r"^OnCalendar=(.+)$", defined("systemd", cron), re.MULTILINE)
    begin = datetime(2026, 6, 1, tzinfo=UTC)
    ours = croniter(cron, begin)
    wanted = [ours.get_next(datetime) for _ in range(12)]
    told: set[str] = set()
    for line in lines:
        command = ["systemd-analyze", "calendar", "--iterations=12", f"--base-time={begin:%Y-%m-%d %H:%M:%S}", line]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, env={"TZ": "UTC"}).stdout
        told |= set(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", answer.partition("Next elapse")[2]))
    assert [f"{at:%Y-%m-%d %H:%M:%S}" for at in wanted] == sorted(told)[:12]


def test_airflow() -> None:
    tree = ast.parse(defined("airflow"))
    calls = {
        call.func.id: call for call in ast.walk(tree) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    task = {word.arg: word.value for word in calls["PapermillOperator"].keywords}
    assert Path(ast.literal_eval(task["input_nb"])).is_file()
    (group,) = ast.literal_eval(task["parameters"])["group"]
    import jinja2

    assert jinja2.Template(group).render() == HOSTILE  # as Airflow renders it
    dag = {word.arg: word.value for word in calls["DAG"].keywords}
    assert ast.literal_eval(dag["schedule"]) == CRON


def test_kubernetes() -> None:
    job = yaml.safe_load(defined("kubernetes"))
    assert (job["kind"], job["spec"]["schedule"], job["spec"]["concurrencyPolicy"]) == ("CronJob", CRON, "Forbid")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert [text.replace("$$", "$") for text in container["args"]] == [*words(), "/reports"]
    assert "$(" not in "".join(container["args"]).replace("$$", "")
    assert re.fullmatch(r"[a-z0-9-]{1,52}", job["metadata"]["name"])


def test_jupyter_scheduler() -> None:
    definition = json.loads(defined("jupyter-scheduler"))
    assert definition["parameters"] == {"group": HOSTILE}
    assert (definition["schedule"], definition["input_uri"]) == (CRON, "daily.ipynb")
    with pytest.raises(InputError, match="single values only"):
        schedule("daily", CRON, "jupyter-scheduler", [], {"group": ["a", "b"]})


@pytest.mark.parametrize(
    "cron", ["", "61 * * * *", "* * * *", "0 0 6 * * *", "@daily", "0 6 * * mon; rm -rf /", "0 6 * *\n*", "x"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_cron_expression(kind: str, cron: str) -> None:
    if cron == "0 6 * *\n*":  # white space between fields is all the same
        assert "0 6 * * *" in defined("crontab", cron)
        return
    with pytest.raises(InputError, match="no cron expression"):
        defined(kind, cron)


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_break_would_be_a_line_of_its_own(kind: str) -> None:
    with pytest.raises(InputError, match="line break"):
        schedule("daily", CRON, kind, ["-p", "group", "a\n* * * * * evil"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_of_ones_own_with_any_name(kind: str, tmp_path: Path) -> None:
    from sharelag.reports.notebooks import notebook

    own = tmp_path / """week %s "$x" 'y' \\ {{z}}.ipynb"""
    own.write_text(notebook("daily").read_text())
    made = schedule(str(own), CRON, kind, [], {}, tmp_path)
    if kind == "airflow":
        ast.parse(made)
    elif kind == "crontab":
        assert str(own) in shlex.split(made.splitlines()[1].split(" ", 5)[5].replace("\\%", "%"))
    elif kind == "systemd":
        service = next(iter(units(made).values()))["Service"]["ExecStart"]
        assert str(own) in shlex.split(service.replace("$$", "$").replace("%%", "%"))
    elif kind == "kubernetes":
        assert str(own) in yaml.safe_load(made)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0][
            "args"
        ][1].replace("$$", "$")
    else:
        assert json.loads(made)["input_uri"] == own.name


def test_on_the_command_line() -> None:
    given: tuple[Any, ...] = ("--bootstrap-server", "b:9092", "--group", "orders", "--keep", "30", "--cron", CRON)
    done = sharelag("report", "schedule", "daily", *given, "--as", "kubernetes")
    assert done.returncode == 0, done.stderr
    args = yaml.safe_load(done.stdout)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    told = {args[n + 1]: _plain(args[n + 2]) for n, word in enumerate(args) if word == "-p"}
    assert told == {"bootstrap_server": "b:9092", "group": ["orders"]}
    assert args[-4:] == ["--keep", "30", "--out", "/reports"]
    done = sharelag("report", "schedule", "daily", *given, "--command-property", "sasl.password=hunter22")
    assert done.returncode == 2
    assert "--command-config" in done.stderr
    assert "hunter22" not in done.stderr
