"""Definitions for schedulers: they parse, and mean what was asked for, whatever a name holds."""

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

import jinja2
import pytest
import yaml
from croniter import croniter

from sharelag.errors import InputError
from sharelag.reports import schedule
from sharelag.reports.schedules import KINDS, NOTEBOOK_ONLY, from_word
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
    assert "the machine's time zone" in comment
    *fields, command = line.split(" ", 5)
    assert (comment[0], " ".join(fields)) == ("#", CRON)
    # cron(8): an escaped % is one, an unescaped one ends the command.
    assert re.search(r"(?<!\\)%", command) is None
    assert shlex.split(command.replace("\\%", "%"))[1:] == [*words(), "/var/re ports"]
    *comments, zone, line = defined("crontab", zone="Europe/Berlin").splitlines()
    assert {comment[0] for comment in comments} == {"#"}
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
    service = found["sharelag-daily.service"]["Service"]
    command = service["ExecStart"]
    unquoted = shlex.split(command.replace("$$", "$").replace("%%", "%"))
    assert unquoted[1:] == [*words(), "/var/re ports"]
    assert re.search(r"(?<!%)%(?!%)|(?<!\$)\$(?!\$)", command) is None
    assert service["Type"] == "oneshot"  # the timer waits for its end
    timer = found["sharelag-daily.timer"]["Timer"]
    assert timer["OnCalendar"] == "Mon,Tue,Wed,Thu,Fri *-*-* 06:30:00"
    assert timer["Persistent"] == "true"
    assert "loginctl enable-linger" in defined("systemd")
    there = units(defined("systemd", zone="Europe/Berlin"))["sharelag-daily.timer"]["Timer"]
    assert there["OnCalendar"] == f"{timer['OnCalendar']} Europe/Berlin"


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine"
)
@pytest.mark.parametrize(
    "cron",
    [CRON, "0 0 1,15 * *", "*/20 8-18 * 3,9 *", "5 4 * * 0", "5 4 * * 7", "0 12 31 1 *", "7 3 13 * 5",
     "0 6 * * fri-mon"],
)  # fmt: skip
def test_systemds_calendar_says_the_same_as_cron(cron: str) -> None:
    begin = datetime(2026, 6, 1, tzinfo=UTC)
    ours = croniter(cron, begin)
    wanted = [f"{ours.get_next(datetime):%Y-%m-%d %H:%M:%S}" for _ in range(12)]
    command = ["systemd-analyze", "calendar", "--iterations=12"]
    command += [f"--base-time={begin:%Y-%m-%d %H:%M:%S}"]
    said: set[str] = set()
    for line in re.findall(r"^OnCalendar=(.+)$", defined("systemd", cron), re.MULTILINE):
        answer = subprocess.run(
            [*command, line], capture_output=True, text=True, check=True, env={"TZ": "UTC"}
        ).stdout.partition("Next elapse")[2]
        said |= set(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", answer))
    assert sorted(said)[:12] == wanted


def test_airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {
        call.func.id: {word.arg: word.value for word in call.keywords}
        for call in ast.walk(ast.parse(defined("airflow")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    task, dag = calls["PapermillOperator"], calls["DAG"]
    assert Path(ast.literal_eval(task["input_nb"])).is_file()
    (group,) = ast.literal_eval(task["parameters"])["group"]
    assert jinja2.Template(group).render() == HOSTILE  # as Airflow renders it
    result = [ast.literal_eval(dag[name]) for name in ("schedule", "catchup", "max_active_runs")]
    assert result == [CRON, False, 1]
    assert "tz='Etc/UTC'" in defined("airflow")
    assert "tz='Europe/Berlin'" in defined("airflow", zone="Europe/Berlin")
    # Its worker has another working folder, and names of folders are not templates.
    monkeypatch.chdir(tmp_path)
    for out in ("/var/re ports", "reports", "{{ ds }}"):
        output = re.search(r"output_nb=(.+),", defined("airflow", out=out))
        assert output
        place = jinja2.Template(ast.literal_eval(output[1])).render(ts_nodash="T")
        assert place == str(tmp_path / out / "daily-T.ipynb")


def test_kubernetes() -> None:
    job = yaml.safe_load(defined("kubernetes"))
    spec, template = job["spec"], job["spec"]["jobTemplate"]["spec"]
    result = [spec[name] for name in ("schedule", "timeZone", "concurrencyPolicy")]
    assert (job["kind"], *result) == ("CronJob", CRON, "Etc/UTC", "Forbid")
    assert template["backoffLimit"] == 0
    there = yaml.safe_load(defined("kubernetes", zone="Europe/Berlin"))
    assert there["spec"]["timeZone"] == "Europe/Berlin"
    (container,) = template["template"]["spec"]["containers"]
    assert [text.replace("$$", "$") for text in container["args"]] == [*words(), "/reports"]
    assert "$(" not in "".join(container["args"]).replace("$$", "")
    assert re.fullmatch(r"[a-z0-9-]{1,52}", job["metadata"]["name"])


def test_kubernetes_gets_files_by_mounts(tmp_path: Path) -> None:
    rules, own = tmp_path / "r.yaml", tmp_path / "client.secret"
    text = defined("kubernetes", rules=str(rules), command_config=str(own), bootstrap_server="b:1")
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
    result = [definition[name] for name in ("parameters", "schedule", "timezone", "input_uri")]
    assert result == [{"group": HOSTILE}, CRON, "Etc/UTC", "daily.ipynb"]
    assert HOSTILE[-1] in defined("jupyter-scheduler")  # as it is, and no escape of JSON
    there = json.loads(defined("jupyter-scheduler", zone="Europe/Berlin"))
    assert there["timezone"] == "Europe/Berlin"
    with pytest.raises(InputError, match="single values only"):
        schedule("daily", CRON, "jupyter-scheduler", {"group": ["a", "b"]})


NOT_CRON, EXTENSION = "is not a cron expression", "some schedulers do not support"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("cron", "why"),
    [
        *((cron, NOT_CRON) for cron in ("", "61 * * * *", "* * * *", "0 0 6 * * *", "@daily", "x")),
        ("0 6 * * mon; rm -rf /", NOT_CRON),
        *((cron, EXTENSION) for cron in ("0 0 * * 1#2", "0 0 * * 5L", "0 0 L * *", "0 0 15W * *")),
        ("0 0 ? * 1", EXTENSION),
        ("0 0 */2 * 1", "write the days as numbers"),
        ("0 0 30 2 *", "never matches"),
    ],
)
def test_what_schedulers_do_not_read_as_the_same_cron(kind: str, cron: str, why: str) -> None:
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
        ("0 6 * *\n*", "0 6 * * *"),  # white space between fields is all the same
        ("5/20 * 1 jan,dec *", "5,25,45 * 1 1,12 *"),  # cron(8) has no step of a single number
        ("*/15 0-5/2 * * 1,3-5", "*/15 0-5/2 * * 1,3-5"),
    ],
)
def test_all_of_them_read_the_same(kind: str, cron: str, plain: str) -> None:
    made = defined(kind, cron)
    assert f"{plain} " in made or plain in re.split(r"[\"'\n]|schedule: ", made)
    begin = datetime(2026, 6, 1, tzinfo=UTC)
    ours, theirs = (croniter(" ".join(one.split()), begin) for one in (cron, plain))
    assert [ours.get_next() for _ in range(50)] == [theirs.get_next() for _ in range(50)]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "CET\nfoo"])
def test_an_invalid_time_zone(zone: str) -> None:
    with pytest.raises(InputError, match="unknown time zone"):
        defined("systemd", zone=zone)


def test_a_parameter_that_the_notebook_does_not_have() -> None:
    with pytest.raises(InputError, match="report daily has no parameter 'groop': choose from"):
        defined("crontab", groop="billing")


def test_an_unknown_scheduler() -> None:
    with pytest.raises(InputError, match="unknown scheduler 'cron': choose one of crontab, syst"):
        defined("cron")


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


BROKER = ("--bootstrap-server", "b:9092", "--cron", CRON)


def scheduled(*given: str, **more: Any) -> Any:
    return sharelag("report", "schedule", "daily", *given, **more)


def arguments(line: list[str]) -> dict[str, str]:
    return {line[n + 1]: line[n + 2] for n, word in enumerate(line) if word == "-p"}


def test_on_the_command_line() -> None:
    given = (*BROKER, "--group", "orders", "--keep", "30")
    done = scheduled(*given, "--as", "kubernetes")
    assert done.returncode == 0, done.stderr
    pod = yaml.safe_load(done.stdout)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    args = pod["containers"][0]["args"]
    result = {name: from_word(word) for name, word in arguments(args).items()}
    assert result == {"bootstrap_server": "b:9092", "group": ["orders"]}
    assert args[-4:] == ["--keep", "30", "--out", "/reports"]
    done = scheduled(*given, "--command-property", "sasl.password=hunter22")
    assert (done.returncode, "--command-config" in done.stderr) == (2, True)
    assert "hunter22" not in done.stderr
    done = scheduled(*BROKER, "--as", "jupyter-scheduler")
    assert json.loads(done.stdout)["input_uri"] == "daily.ipynb"
    assert "the root folder of the Jupyter server: copy /" in done.stderr
    done = scheduled("--cron", CRON, env={"KAFKA_BOOTSTRAP_SERVERS": "b:1"})
    assert (done.returncode, "name an input" in done.stderr) == (2, True)


def test_paths_are_whole_wherever_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler has another working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("rules: rules.yaml\n")
    given = ("-p", "capture", "saved", "-f", "p.yaml", "--command-config", "c.properties")
    done = scheduled(*given, "--cron", CRON)
    assert done.returncode == 0, done.stderr
    line = shlex.split(done.stdout.splitlines()[1])
    names = {"capture": "saved", "rules": "rules.yaml", "command_config": "c.properties"}
    assert arguments(line) == {name: str(tmp_path / place) for name, place in names.items()}
    assert line[-2:] == ["--out", str(tmp_path / "reports")]


def test_how_a_report_is_made_goes_along() -> None:
    how = ("--overlap", "fail", "--keep", "3", "--keep-days", "2.5", "--cell-timeout")
    done = scheduled(*BROKER, *how, "60s", "--no-figures")
    line = shlex.split(done.stdout.splitlines()[1])
    assert line[line.index("--overlap") : -2] == [*how, "1m", "--no-figures"]
    for kind in NOTEBOOK_ONLY:
        with pytest.raises(InputError, match="runs the notebook itself"):
            schedule("daily", CRON, kind, {}, options=["--keep", "3"])
