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

from sharelag.errors import InputError
from sharelag.reports.job import from_word
from sharelag.reports.schedule import KINDS, NOTEBOOK_ONLY, schedule
from tests.support.command import sharelag

HOSTILE = """a$b%c"d'e\\f {{ g }} {% h %} $(i) #j; k: - l 🦜"""
CRON = "30 6 * * 1-5"


def defined(
    kind: str, cron: str = CRON, zone: str | None = None, out: str = "/var/re ports", **more: Any
) -> str:
    return schedule("daily", cron, kind, {"group": [HOSTILE], **more}, out, zone=zone)


def words() -> list[str]:
    return ["report", "daily", "-p", "group", json.dumps([HOSTILE], ensure_ascii=False), "--out"]


def test_crontab() -> None:
    comment, line = defined("crontab").splitlines()
    assert comment.startswith("#")
    assert "the machine's time zone" in comment
    fields = line.split(" ", 5)
    assert " ".join(fields[:5]) == CRON
    # cron(8): an escaped % is one, an unescaped one ends the command.
    assert re.search(r"(?<!\\)%", fields[5]) is None
    assert shlex.split(fields[5].replace("\\%", "%"))[1:] == [*words(), "/var/re ports"]


def test_crontab_in_another_time_zone() -> None:
    *comments, zone, line = defined("crontab", zone="Europe/Berlin").splitlines()
    assert comments
    assert all(comment.startswith("#") for comment in comments)
    assert (zone, line.startswith(CRON)) == ("CRON_TZ=Europe/Berlin", True)


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
    assert (
        found["sharelag-daily.service"]["Service"]["Type"] == "oneshot"
    )  # the timer waits for its end
    timer = found["sharelag-daily.timer"]["Timer"]
    assert (timer["OnCalendar"], timer["Persistent"]) == (
        "Mon,Tue,Wed,Thu,Fri *-*-* 06:30:00",
        "true",
    )
    assert "loginctl enable-linger" in defined("systemd")
    there = units(defined("systemd", zone="Europe/Berlin"))["sharelag-daily.timer"]["Timer"]
    assert there["OnCalendar"] == f"{timer['OnCalendar']} Europe/Berlin"


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine"
)
@pytest.mark.parametrize(
    "cron",
    [
        CRON,
        "0 0 1,15 * *",
        "*/20 8-18 * 3,9 *",
        "5 4 * * 0",
        "5 4 * * 7",
        "0 12 31 1 *",
        "7 3 13 * 5",
        "0 6 * * fri-mon",
    ],
)
def test_systemds_calendar_says_the_same_as_cron(cron: str) -> None:
    lines = re.findall(r"^OnCalendar=(.+)$", defined("systemd", cron), re.MULTILINE)
    begin = datetime(2026, 6, 1, tzinfo=UTC)
    ours = croniter(cron, begin)
    wanted = [ours.get_next(datetime) for _ in range(12)]
    result: set[str] = set()
    for line in lines:
        command = [
            "systemd-analyze",
            "calendar",
            "--iterations=12",
            f"--base-time={begin:%Y-%m-%d %H:%M:%S}",
            line,
        ]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, env={"TZ": "UTC"}
        ).stdout
        result |= set(
            re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", answer.partition("Next elapse")[2])
        )
    assert [f"{at:%Y-%m-%d %H:%M:%S}" for at in wanted] == sorted(result)[:12]


def test_airflow() -> None:
    tree = ast.parse(defined("airflow"))
    calls = {
        call.func.id: call
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    task = {word.arg: word.value for word in calls["PapermillOperator"].keywords}
    assert Path(ast.literal_eval(task["input_nb"])).is_file()
    (group,) = ast.literal_eval(task["parameters"])["group"]
    import jinja2

    assert jinja2.Template(group).render() == HOSTILE  # as Airflow renders it
    dag = {word.arg: word.value for word in calls["DAG"].keywords}
    result = {
        name: ast.literal_eval(dag[name]) for name in ("schedule", "catchup", "max_active_runs")
    }
    assert result == {"schedule": CRON, "catchup": False, "max_active_runs": 1}
    assert (
        jinja2.Template(ast.literal_eval(task["output_nb"])).render(ts_nodash="T")
        == "/var/re ports/daily-T.ipynb"
    )
    assert "tz='Etc/UTC'" in defined("airflow")
    assert "tz='Europe/Berlin'" in defined("airflow", zone="Europe/Berlin")


def test_airflow_writes_where_it_is_configured_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker has another working folder, and names of folders are not templates."""
    monkeypatch.chdir(tmp_path)
    import jinja2

    for out in ("reports", "{{ ds }}"):
        output = re.search(r"output_nb=(.+),", defined("airflow", out=out))
        assert output
        assert (
            jinja2.Template(ast.literal_eval(output[1])).render(ts_nodash="T")
            == f"{tmp_path}/{out}/daily-T.ipynb"
        )


def test_kubernetes() -> None:
    job = yaml.safe_load(defined("kubernetes"))
    assert (job["spec"]["timeZone"], job["spec"]["jobTemplate"]["spec"]["backoffLimit"]) == (
        "Etc/UTC",
        0,
    )
    assert (
        yaml.safe_load(defined("kubernetes", zone="Europe/Berlin"))["spec"]["timeZone"]
        == "Europe/Berlin"
    )
    assert (job["kind"], job["spec"]["schedule"], job["spec"]["concurrencyPolicy"]) == (
        "CronJob",
        CRON,
        "Forbid",
    )
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert [text.replace("$$", "$") for text in container["args"]] == [*words(), "/reports"]
    assert "$(" not in "".join(container["args"]).replace("$$", "")
    assert re.fullmatch(r"[a-z0-9-]{1,52}", job["metadata"]["name"])


def test_kubernetes_gets_files_by_mounts(tmp_path: Path) -> None:
    rules, settings = tmp_path / "r.yaml", tmp_path / "client.secret"
    text = defined(
        "kubernetes", rules=str(rules), command_config=str(settings), bootstrap_server="b:1"
    )
    pod = yaml.safe_load(text)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    args = container["args"]
    result = {args[place + 1]: args[place + 2] for place, word in enumerate(args) if word == "-p"}
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert set(mounts) == set(volumes) == {"reports", "sharelag-client", "sharelag-rules"}
    for name, volume, kind in (
        ("command_config", "sharelag-client", "secret generic"),
        ("rules", "sharelag-rules", "configmap"),
    ):
        folder, _, file = result[name].rpartition("/")
        assert (mounts[volume]["mountPath"], mounts[volume]["readOnly"]) == (folder, True)
        assert f"kubectl create {kind} {volume} --from-file={file}=FILE" in text
    assert volumes["sharelag-client"]["secret"] == {"secretName": "sharelag-client"}
    assert volumes["sharelag-rules"]["configMap"] == {"name": "sharelag-rules"}
    assert str(tmp_path) not in text
    assert "RUN pip install 'sharelag[report]==" in text


@pytest.mark.parametrize("name", ["capture", "segments", "previous", "raw"])
def test_kubernetes_has_nothing_of_this_machine(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the container does not have .* on this machine"):
        defined("kubernetes", **{name: str(tmp_path)})
    assert "s3://bucket/raw" in defined("kubernetes", raw="s3://bucket/raw")


def test_jupyter_scheduler() -> None:
    definition = json.loads(defined("jupyter-scheduler"))
    assert definition["parameters"] == {"group": HOSTILE}
    result = (definition["schedule"], definition["timezone"], definition["input_uri"])
    assert result == (CRON, "Etc/UTC", "daily.ipynb")
    assert (
        json.loads(defined("jupyter-scheduler", zone="Europe/Berlin"))["timezone"]
        == "Europe/Berlin"
    )
    with pytest.raises(InputError, match="single values only"):
        schedule("daily", CRON, "jupyter-scheduler", {"group": ["a", "b"]})


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "61 * * * *",
        "* * * *",
        "0 0 6 * * *",
        "@daily",
        "0 6 * * mon; rm -rf /",
        "0 6 * *\n*",
        "x",
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_cron_expression(kind: str, cron: str) -> None:
    if cron == "0 6 * *\n*":  # white space between fields is all the same
        assert "0 6 * * *" in defined("crontab", cron)
        return
    with pytest.raises(InputError, match="is not a cron expression"):
        defined(kind, cron)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("cron", "why"),
    [
        ("0 0 * * 1#2", "some schedulers do not support"),
        ("0 0 * * 5L", "some schedulers do not support"),
        ("0 0 L * *", "some schedulers do not support"),
        ("0 0 15W * *", "some schedulers do not support"),
        ("0 0 ? * 1", "some schedulers do not support"),
        ("0 0 */2 * 1", "write the days as numbers"),
        ("0 0 30 2 *", "never matches"),
    ],
)
def test_what_schedulers_read_in_different_ways(kind: str, cron: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        defined(kind, cron)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"systemd"}))
@pytest.mark.parametrize(
    ("cron", "plain"),
    [
        ("0 0 * * 7", "0 0 * * 0"),  # Kubernetes knows no day 7
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 12 * 1-7", "0 0 12 * 0,1,2,3,4,5,6"),  # every day, and not the 12th alone
        ("0 6 * * FRI-mon", "0 6 * * 0,1,5,6"),
        ("5/20 * 1 jan,dec *", "5,25,45 * 1 1,12 *"),  # cron(8) has no step of a single number
        ("*/15 0-5/2 * * 1,3-5", "*/15 0-5/2 * * 1,3-5"),
    ],
)
def test_all_of_them_read_the_same(kind: str, cron: str, plain: str) -> None:
    assert f"{plain} " in defined(kind, cron) or plain in re.split(
        r"[\"'\n]|schedule: ", defined(kind, cron)
    )
    begin = datetime(2026, 6, 1, tzinfo=UTC)
    ours, theirs = (croniter(one, begin) for one in (cron, plain))
    assert [ours.get_next() for _ in range(50)] == [theirs.get_next() for _ in range(50)]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "CET\nfoo"])
def test_an_invalid_time_zone(zone: str) -> None:
    with pytest.raises(InputError, match="unknown time zone"):
        defined("systemd", zone=zone)


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_break_would_begin_another_line(kind: str) -> None:
    with pytest.raises(InputError, match="line break"):
        schedule("daily", CRON, kind, {"group": ["a\n* * * * * evil"]})


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_of_ones_own_with_any_name(kind: str, tmp_path: Path) -> None:
    from sharelag.reports.notebooks import notebook

    own = tmp_path / """week %s "$x" 'y' \\ {{z}}.ipynb"""
    own.write_text(notebook("daily").read_text())
    if kind == "kubernetes":
        with pytest.raises(InputError, match="the container does not have"):
            schedule(str(own), CRON, kind, {}, tmp_path)
        return
    made = schedule(str(own), CRON, kind, {}, tmp_path)
    if kind == "airflow":
        ast.parse(made)
    elif kind == "crontab":
        assert str(own) in shlex.split(made.splitlines()[1].split(" ", 5)[5].replace("\\%", "%"))
    elif kind == "systemd":
        service = next(iter(units(made).values()))["Service"]["ExecStart"]
        assert str(own) in shlex.split(service.replace("$$", "$").replace("%%", "%"))
    else:
        assert json.loads(made)["input_uri"] == own.name


def test_on_the_command_line() -> None:
    given: tuple[Any, ...] = (
        "--bootstrap-server",
        "b:9092",
        "--group",
        "orders",
        "--keep",
        "30",
        "--cron",
        CRON,
    )
    done = sharelag("report", "schedule", "daily", *given, "--as", "kubernetes")
    assert done.returncode == 0, done.stderr
    args = yaml.safe_load(done.stdout)["spec"]["jobTemplate"]["spec"]["template"]["spec"][
        "containers"
    ][0]["args"]
    result = {args[n + 1]: from_word(args[n + 2]) for n, word in enumerate(args) if word == "-p"}
    assert result == {"bootstrap_server": "b:9092", "group": ["orders"]}
    assert args[-4:] == ["--keep", "30", "--out", "/reports"]
    done = sharelag(
        "report", "schedule", "daily", *given, "--command-property", "sasl.password=hunter22"
    )
    assert done.returncode == 2
    assert "--command-config" in done.stderr
    assert "hunter22" not in done.stderr


def test_paths_are_whole_wherever_they_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler has another working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("rules: rules.yaml\n")
    given = (
        "-p",
        "capture",
        "saved",
        "-f",
        "p.yaml",
        "--command-config",
        "c.properties",
        "--cron",
        CRON,
    )
    done = sharelag("report", "schedule", "daily", *given)
    assert done.returncode == 0, done.stderr
    line = shlex.split(done.stdout.splitlines()[1])
    result = {line[n + 1]: line[n + 2] for n, word in enumerate(line) if word == "-p"}
    names = {"capture": "saved", "rules": "rules.yaml", "command_config": "c.properties"}
    assert result == {name: str(tmp_path / place) for name, place in names.items()}
    assert line[-2:] == ["--out", str(tmp_path / "reports")]


def test_how_a_report_is_made_goes_along() -> None:
    how = [
        "--overlap",
        "fail",
        "--keep",
        "3",
        "--keep-days",
        "2.5",
        "--cell-timeout",
        "1m",
        "--no-figures",
    ]
    given = (
        "--bootstrap-server",
        "b:1",
        "--cron",
        CRON,
        "--overlap",
        "fail",
        "--keep",
        "3",
        "--keep-days",
        "2.5",
    )
    done = sharelag("report", "schedule", "daily", *given, "--cell-timeout", "60s", "--no-figures")
    line = shlex.split(done.stdout.splitlines()[1])
    assert line[line.index("--overlap") : -2] == how
    for kind in NOTEBOOK_ONLY:
        with pytest.raises(InputError, match="runs the notebook itself"):
            schedule("daily", CRON, kind, {}, options=["--keep", "3"])


def test_what_the_command_says_besides() -> None:
    given = ("--bootstrap-server", "b:1", "--cron", CRON)
    done = sharelag("report", "schedule", "daily", *given, "--as", "jupyter-scheduler")
    assert json.loads(done.stdout)["input_uri"] == "daily.ipynb"
    assert "the root folder of the Jupyter server: copy /" in done.stderr
    done = sharelag(
        "report", "schedule", "daily", "--cron", CRON, env={"KAFKA_BOOTSTRAP_SERVERS": "b:1"}
    )
    assert done.returncode == 2
    assert "name an input" in done.stderr
