"""What a plan of a reset says is what counting offset by offset says."""

import json
import math
import shlex
import shutil
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.reset import plan_reset, reset_commands
from sharelag.model.kafka_commands import check_command
from sharelag.model.versions import has_reached
from sharelag.replay import replay_arrow
from tests.support import generators
from tests.support.captures import describe
from tests.support.cases import Cases
from tests.support.command import refused, rows_of
from tests.support.command import sharelag as command
from tests.support.generations import TODAY, records
from tests.support.readings import open_once
from tests.support.records import assert_fields

FINISHED = (2, 4)
LOG_START, LOG_END = 3, 90


def random_history(random: Random) -> tuple[pa.Table, pa.Table]:
    """A window after random writes, and its lag."""
    found = records([(5, []), *generators.ordered_sequence(random, updates=12)], TODAY)
    windows = pa.Table.from_batches([replay_arrow(found)])
    return windows, lag_of(windows)


def lag_of(windows: pa.Table) -> pa.Table:
    """The lag of a window of `orders`, whose log goes from 3 to 90."""
    offsets = {"topic": "orders", "topic_id": windows.column("topic_id")[0].as_py()}
    offsets |= {"partition": windows.column("partition")[0].as_py(), "leader_epoch": 0}
    offsets |= {"log_start_offset": LOG_START, "end_offset": LOG_END, "as_of": None}
    lag = lag_arrow(windows, pa.Table.from_pylist([offsets], schemas.OFFSETS))
    return pa.Table.from_batches([lag])


def counted(window: dict[str, Any], new: int) -> dict[str, int | None]:
    """Count offset by offset."""
    start = window["start_offset"]
    past = max(window["effective_start_offset"] or start, start)
    done = {*range(start), *range(start, past)}
    for run in window["runs"]:
        if run["delivery_state"] in FINISHED:
            done |= set(range(run["first_offset"], run["last_offset"] + 1))
    left = [offset for offset in range(start, max(new, LOG_START)) if offset not in done]
    end = max(window["window_end_offset"], start)
    return {
        "new_lag": LOG_END - new if new <= LOG_END else None,
        "again": sum(offset in done for offset in range(max(new, LOG_START), LOG_END)),
        "skipped": len(left),
        "skipped_unread": sum(offset >= end for offset in left),
    }


def test_random_windows_and_targets_are_counted_offset_by_offset(cases: Cases) -> None:
    random = Random("resets")
    for _ in range(cases(60, 2000)):
        windows, lag = random_history(random)
        (window,) = windows.to_pylist()
        if window["window_end_offset"] > LOG_END:
            continue
        to: Any = random.choice(["earliest", "latest", random.randrange(110)])
        by = random.randrange(-60, 60) if random.random() < 0.3 else None
        (row,) = plan_reset(lag, windows, None if by else to, by or None).to_pylist()
        ends: dict[Any, int] = {"earliest": LOG_START, "latest": LOG_END}
        past = max(window["effective_start_offset"], LOG_START)
        new = min(max(past + by, LOG_START), LOG_END) if by else ends.get(to, to)
        assert row["new_start_offset"] == new
        assert {name: row[name] for name in counted(window, new)} == counted(window, new)
        assert row["new_drain_ms"] is None


def test_what_lies_before_a_start_beyond_the_end_is_delivered_again() -> None:
    """Resets to any offset are taken by `Admin.alterShareGroupOffsets`; the log is 90 long."""
    windows = pa.Table.from_batches([replay_arrow(records([(5, []), (95, [])], TODAY))])
    (row,) = plan_reset(lag_of(windows), windows, "earliest").to_pylist()
    assert_fields(row, start_offset=95, again=LOG_END - LOG_START, skipped=0)


def test_nothing_is_counted_up_to_an_unknown_start() -> None:
    windows = pa.Table.from_batches([replay_arrow(records([(5, [])], TODAY))])
    lag = lag_of(windows)
    place = lag.column_names.index("end_offset")
    hidden = lag.set_column(place, "end_offset", pa.nulls(1, pa.int64()))
    for plan in plan_reset(hidden, windows, "latest"), plan_reset(lag, windows, at=hidden):
        (row,) = plan.to_pylist()
        names = ("new_start_offset", "new_lag", "again", "skipped", "skipped_unread")
        assert_fields(row, **dict.fromkeys(names))


@pytest.mark.row("CLI-05", "RPC-08")
def test_a_plan_is_of_one_group_and_comes_with_kafkas_command() -> None:
    bench = open_once("chapters")
    plan = bench.plan_reset("billing", "earliest", topic="payments")
    assert set(plan.table.column("topic").to_pylist()) == {"payments"}
    assert plan.table.column("again").to_pylist() == [500] * 4
    assert plan.table.column("new_start_offset").to_pylist() == [0] * 4
    assert plan.notes[-1].endswith(
        "--group billing --topic payments --reset-offsets --to-earliest --execute"
    )
    members = open_once("poison").plan_reset("poison", "latest")
    refused = "Kafka refuses it while the group has members (NON_EMPTY_GROUP): it has 3 now."
    assert refused in members.notes
    given = ("--capture", "poison", "--group", "poison", "--to-latest", "-o", "json")
    done = command("plan-reset", *given)
    assert all(json.loads(line)["group_id"] == "poison" for line in done.stdout.splitlines())
    assert refused in done.stderr
    assert set(members.table.column("skipped").to_pylist()) == {0, 1}


def test_a_time_goes_to_the_first_record_then_or_later() -> None:
    bench = open_once("chapters")
    as_of = bench.evidence().as_of
    late = bench.plan_reset("billing", as_of + timedelta(seconds=1), topic="payments")
    ends = bench.lag("billing").table.to_pylist()
    mine = [row["end_offset"] for row in ends if row["topic"] == "payments"]
    assert late.table.column("new_start_offset").to_pylist() == mine
    early = bench.plan_reset("billing", as_of - timedelta(seconds=40), topic="payments")
    pairs = zip(early.table.column("new_start_offset").to_pylist(), mine, strict=True)
    assert all(new is None or new <= end for new, end in pairs)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "one target is needed"),
        ({"to": "earliest", "shift_by": 1}, "one target is needed"),
        ({"to": "begin"}, "unknown target 'begin'"),
        ({"to": -1}, "-1 is not an offset"),
        ({"to": np.int64(-1)}, "is not an offset"),
        ({"to": np.timedelta64(5, "m")}, "unknown target"),
        ({"to": date(2026, 11, 21)}, "unknown target"),
        ({"to": math.nan}, "unknown target"),
        ({"to": 5.0}, "unknown target 5.0"),
        ({"shift_by": 1.5}, "unknown target 1.5"),
        ({"shift_by": "5"}, "unknown target '5'"),
        ({"to": datetime(2026, 11, 21)}, "has no time zone"),
        ({"to": timedelta(seconds=-1)}, "is not a time before now"),
        ({"to": "latest", "topic": "poison-ordres"}, "; did you mean 'poison-orders'?"),
        ({"to": "latest", "topic": "poison-orders:0,7"}, "'poison-orders' has no partition 7 here"),
        ({"to": "latest", "topic": "poison-orders:"}, "give TOPIC or TOPIC:0,1,2"),
    ],
)
def test_what_is_no_reset_is_an_error(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        open_once("poison").plan_reset("poison", **given)


@pytest.mark.row("CLI-04")
def test_a_time_is_read_and_written_as_kafkas_command_has_it() -> None:
    """GL-19c."""
    at = "1999-12-31T23:57:00.000"
    options = ("--capture", "chapters", "--group", "billing", "--topic", "orders")
    done = command("plan-reset", *options, "--to-datetime", at, "-o", "json", code=0)
    wanted = f"--group billing --topic orders --reset-offsets --to-datetime {at} --execute"
    assert done.stderr.count(wanted) == 1
    rows = rows_of(done)
    assert len(rows) == 6
    zoned = command("plan-reset", *options, "--to-datetime", f"{at}Z", "-o", "json")
    assert zoned.stdout == done.stdout


def test_a_command_is_of_the_version_that_has_it() -> None:
    """Offsets are taken from Kafka 4.4 on (KIP-1323), one for all or a file's."""
    asked = ("plan-reset", "--capture", "chapters", "--group", "billing", "--topic", "payments:0,1")
    offset = command(*asked, "--to-offset", "100", "--kafka-version", "4.4.0", "-o", "json")
    begun = "Kafka's command: kafka-share-groups.sh --bootstrap-server HOST:PORT --group billing "
    line = f"{begun}--topic payments:0,1 --reset-offsets --to-offset 100 --execute"
    assert line in offset.stderr
    assert "not known here" not in offset.stderr
    assert not check_command(shlex.split(line.partition(": ")[2]), "4.4.0").problems
    assert command(*asked, "--to-offset", "100", "-o", "json").stdout == offset.stdout
    moved = command(*asked, "--shift-by", "-10", "--kafka-version", "4.4", "-o", "json")
    rows = rows_of(moved)
    lines = [f"{row['topic']},{row['partition']},{row['new_start_offset']}" for row in rows]
    assert len(lines) == 2
    assert f"Kafka's command: printf '%s\\n' {' '.join(lines)} > plan.csv" in moved.stderr
    assert f"{begun}--reset-offsets --from-file plan.csv --dry-run" in moved.stderr
    for target in (("--to-offset", "100"), ("--shift-by", "-10")):
        older = command(*asked, *target, "--kafka-version", "4.3.1").stderr
        said = "kafka-share-groups.sh of Kafka 4.3.1 refuses the command: "
        assert f"{said}--{'to-offset' if '100' in target else 'from-file'}: " in older
        assert "has it from Kafka 4.4 on (use the tool of that release; it works with" in older
        assert "Kafka's command" not in older
    said = refused(*asked, "--to-earliest", "--kafka-version", "new")
    assert "'new' is not a version of Kafka" in said


@pytest.mark.parametrize(
    ("plan", "version"),
    [
        *((("plan-reset", "--to-earliest"), one) for one in ("4.1", "4.2")),
        *((("plan-reset", "--to-latest"), one) for one in ("4.1", "4.9", None)),
        *((("plan-reset", "--to-datetime", "2026-11-21T03:10:00.000"), one) for one in ("4.2",)),
        *((("plan-reset", "--to-offset", "5"), one) for one in ("4.3.1", "4.4.0", None)),
        *((("plan-reset", "--shift-by", "-10"), one) for one in ("4.3.1", "4.4.0", "4.9")),
        *((("plan-delete", "--topic", "payments"), one) for one in ("4.0", "4.1", None)),
    ],
)
def test_a_plan_is_what_that_version_takes(plan: tuple[str, ...], version: str | None) -> None:
    """The first version that has each action, and what else is said of a version."""
    first = {"--to-offset": "4.4", "--shift-by": "4.4", "--topic": "4.1"}.get(plan[1], "4.2")
    chosen = () if version is None else ("--kafka-version", version)
    here = ("--capture", "chapters", "--group", "billing", "-o", "json")
    said = command(*plan, *chosen, *here, code=0)
    begun = "sharelag: Kafka's command"
    lines = [one for one in said.stderr.splitlines() if one.startswith((f"{begun}: ", f"{begun},"))]
    asked = [one.partition(": ")[2].partition(": ")[2] for one in lines]
    judged = {
        "4.9": "4.4, the newest known, instead of 4.9",
        None: "4.3, by the settings that are known, as the input does not have their version",
    }.get(version, version)
    assert bool(asked) == has_reached(version or "4.3", first)
    tool = f"kafka-share-groups.sh of Kafka {judged}"
    if asked:
        assert f"What follows is for {tool}.\n" in said.stderr
        assert not check_command(shlex.split(asked[-1]), version).problems
    else:
        assert f"{tool}{'' if version else ','} refuses the command: --" in said.stderr


def test_a_capture_tells_its_version(tmp_path: Path) -> None:
    """Of a capture that notes none, and of one that does."""
    copy = tmp_path / "older"
    shutil.copytree(folder_of("chapters"), copy)
    describe(copy, kafka_version="4.3")
    asked = ("plan-reset", "--capture", str(copy), "--group", "billing", "--to-offset", "100")
    refused = "kafka-share-groups.sh of Kafka 4.3, of the input, refuses the command: --to-off"
    assert refused in command(*asked).stderr
    assert "--to-offset 100 --execute" in command(*asked, "--kafka-version", "4.4").stderr
    describe(copy, kafka_version="new")
    assert "kafka_version: 'new' is not a version of Kafka" in command(*asked).stderr


def test_the_terminal_says_the_same() -> None:
    done = command(
        "plan-reset", "--capture", "chapters", "--group", "billing", "--to-earliest", code=0
    )
    lines = [line.split()[:10] for line in done.stdout.splitlines()]
    assert lines[0][:5] == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "NEW-START"]
    assert ["billing", "payments", "0", "490", "0", "0", "500", "500", "0", "0"] in lines
    assert "--reset-offsets --to-earliest --execute" in done.stderr
    said = refused("plan-reset", "--bootstrap-server", "nobody:1", "--group", "x", code=2)
    assert "choose one of" in said
    targets = ("--to-earliest", "--to-latest")
    told = refused("plan-reset", "--capture", "chapters", "--group", "x", *targets, code=2)
    assert "choose one of --to-earliest, --to-latest" in told


@pytest.mark.row("WIN-09")
def test_a_reset_into_remote_storage_is_warned_of(tmp_path: Path) -> None:
    """A topic in tiered storage: the broker's own disk begins at 5000."""
    local = tmp_path / "local.txt"
    local.write_text("orders:0:5000\norders:1:\norders:2:90\npayments:0:5000\n")
    given = ("plan-reset", "--capture", "chapters", "--group", "billing", "--topic", "orders")
    far = ("--to-offset", "100", "--local-offsets", str(local))
    done = command(*given, *far, "-o", "json", code=0)
    remote = {row["partition"]: row["remote"] for row in rows_of(done)}
    assert remote == {0: 4900, 1: None, 2: 0, 3: None, 4: None, 5: None}
    warned = "Remote reads: 4,900 offsets in 1 of 6 share partitions are in remote storage alone"
    assert warned in done.stderr
    near = command(*given, "--to-offset", "100", "-o", "json")
    assert "Remote" not in near.stderr
    assert {json.loads(line)["remote"] for line in near.stdout.splitlines()} == {None}
    bench = open_once("chapters")
    plan = bench.plan_reset("billing", 100, topic="orders", local_offsets=local)
    assert plan.table.column("remote").to_pylist()[0] == 4900
    local.write_text("orders:0\n")
    assert "'orders:0' is not TOPIC:PARTITION:OFFSET" in command(*given, *far).stderr
    assert "cannot read offsets from" in command(*given, *far[:-1], str(tmp_path / "gone")).stderr


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        (["--by-duration", "PT30S"], 2, "PT30S"),
        (["--to-datetime", "yesterday"], 1, "invalid time 'yesterday'"),
        (["--to-offset", "5", "--shift-by", "5"], 2, "--shift-by, --to-datetime or --by-duration."),
        (["--to-offset", str(2**53 + 1)], 1, "no log has more than 9,007,199,254,740,992 offsets"),
        (["--shift-by", str(-(2**53) - 1)], 1, "no log has more than"),
    ],
)
def test_a_wrong_target_is_told_before_reading(given: list[str], status: int, words: str) -> None:
    asked = ("plan-reset", "--bootstrap-server", "nobody.invalid:9092", "--group", "billing")
    done = command(*asked, *given)
    assert (done.returncode, words in done.stderr) == (status, True), done.stderr
    assert "nobody.invalid" not in done.stderr


def test_partitions_are_chosen_as_kafkas_command_has_them() -> None:
    bench = open_once("chapters")
    plan = bench.plan_reset("billing", "earliest", topic=["payments:0,2", "orders:1"])
    found = [(row["topic"], row["partition"]) for row in plan.table.to_pylist()]
    assert found == [("orders", 1), ("payments", 0), ("payments", 2)]
    (dry, _) = [note for note in plan.notes if "Kafka's command" in note]
    assert "--topic payments:0,2 --topic orders:1 --reset-offsets" in dry
    past = bench.plan_reset("billing", timedelta(seconds=40), topic="payments")
    at = bench.evidence().as_of - timedelta(seconds=40)
    assert past.table == bench.plan_reset("billing", at, topic="payments").table


def test_an_offset_beyond_the_end_is_taken_as_kafka_takes_it() -> None:
    """Kafka sets it, knows no lag then, and delivers nothing before the log is that long."""
    bench = open_once("chapters")
    plan = bench.plan_reset("billing", 5000, topic="payments")
    row, *_ = plan.table.to_pylist()
    assert_fields(row, new_start_offset=5000, new_lag=None, again=0)
    assert any("Offset 5000 is beyond the end of 4 of 4 logs" in note for note in plan.notes)
    inside = bench.plan_reset("billing", 100, topic="payments")
    assert not any("beyond the end" in note for note in inside.notes)


def test_names_with_control_characters_stay_the_same_group_in_bash() -> None:
    at = datetime(2026, 11, 21, 3, 10, 0, 5000, UTC)
    assert "--to-datetime 2026-11-21T03:10:00.005 " in reset_commands("g", [], at)[0]
    acting = ("line\nbreak", "\x1b[31mred\x1b[0m", "a'b\\n\tc1", "\u202e\u00fc\n9")
    for name in (*acting, "a b;$(x)", "plain"):
        (dry, wet) = reset_commands(name, ["it's"], "latest", "b:9092", "/etc/a b.properties")
        assert (dry.endswith("--dry-run"), wet.endswith("--execute")) == (True, True)
        assert dry.removesuffix("--dry-run") == wet.removesuffix("--execute")
        assert dry.isprintable()
        said = subprocess.run(
            ["bash", "-c", f"kafka-share-groups.sh() {{ printf '%s\\0' \"$@\"; }}; {dry}"],
            capture_output=True,
            check=True,
        )
        words = said.stdout.decode().split("\0")
        assert words[words.index("--group") + 1] == name
        assert words[words.index("--topic") + 1] == "it's"
        assert words[words.index("--command-config") + 1] == "/etc/a b.properties"
