"""What a plan of a reset says is what counting offset by offset says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.reset import kafkas_commands, plan_reset
from sharelag.replay import replay_arrow
from tests.support import generators
from tests.support.command import sharelag as command
from tests.support.generations import TODAY, records

FINISHED = (2, 4)
LOG_START, LOG_END = 3, 90


def random_history(random: Random) -> tuple[pa.Table, pa.Table]:
    """A window after random writes, and its lag."""
    found = records([(5, []), *generators.ordered_sequence(random, updates=12)], TODAY)
    windows = pa.Table.from_batches([replay_arrow(found)])
    offsets = {"topic": "orders", "topic_id": windows.column("topic_id")[0].as_py()}
    offsets |= {"partition": windows.column("partition")[0].as_py(), "leader_epoch": 0}
    offsets |= {"log_start_offset": LOG_START, "end_offset": LOG_END, "as_of": None}
    lag = lag_arrow(windows, pa.Table.from_pylist([offsets], schemas.OFFSETS))
    return windows, pa.Table.from_batches([lag]) if isinstance(lag, pa.RecordBatch) else lag


def counted(window: dict[str, Any], new: int) -> dict[str, int]:
    """Count offset by offset."""
    start = window["start_offset"]
    past = max(window["effective_start_offset"] or start, start)
    done = {*range(start), *range(start, past)}
    for run in window["runs"]:
        if run["delivery_state"] in FINISHED:
            done |= set(range(run["first_offset"], run["last_offset"] + 1))
    left = [offset for offset in range(start, new) if offset not in done]
    end = max(window["window_end_offset"], start)
    return {
        "new_lag": LOG_END - new,
        "again": sum(offset in done for offset in range(new, LOG_END)),
        "skipped": len(left),
        "skipped_unread": sum(offset >= end for offset in left),
    }


def test_random_windows_and_targets_are_counted_offset_by_offset() -> None:
    random = Random("resets")
    for _ in range(150):
        windows, lag = random_history(random)
        (window,) = windows.to_pylist()
        if window["window_end_offset"] > LOG_END:
            continue
        to: Any = random.choice(["earliest", "latest", random.randrange(110)])
        by = random.randrange(-60, 60) if random.random() < 0.3 else None
        (row,) = plan_reset(
            lag, windows, schemas.PROGRESS.empty_table(), None if by else to, by or None
        ).to_pylist()
        ends: dict[Any, int] = {"earliest": LOG_START, "latest": LOG_END}
        wanted = window["start_offset"] + by if by else ends.get(to, to)
        new = min(max(wanted, LOG_START), LOG_END)
        assert row["new_start_offset"] == new
        assert {name: row[name] for name in counted(window, new)} == counted(window, new)
        assert row["new_drain_ms"] == (0 if new == LOG_END else None)


@pytest.mark.row("CLI-05", "RPC-08")
def test_a_plan_is_of_one_group_and_comes_with_kafkas_command() -> None:
    bench = sharelag.open("chapters", engine="local")
    plan = bench.plan_reset("billing", "earliest", topic="payments")
    assert set(plan.table.column("topic").to_pylist()) == {"payments"}
    assert plan.table.column("again").to_pylist() == [500] * 4
    assert plan.table.column("new_start_offset").to_pylist() == [0] * 4
    assert plan.notes[-1].endswith(
        "--group billing --topic payments --reset-offsets --to-earliest --execute"
    )
    members = sharelag.open("poison", engine="local").plan_reset("poison", "latest")
    refused = "Kafka refuses it while the group has members (NON_EMPTY_GROUP): it has 3 now."
    assert refused in members.notes
    given = ("--capture", "poison", "--group", "poison", "--to-latest", "-o", "json")
    done = command("plan-reset", *given)
    assert all(json.loads(line)["group_id"] == "poison" for line in done.stdout.splitlines())
    assert refused in done.stderr
    assert set(members.table.column("skipped").to_pylist()) == {0, 1}


def test_a_time_goes_to_the_first_record_then_or_later() -> None:
    bench = sharelag.open("chapters", engine="local")
    as_of = bench.evidence().as_of
    late = bench.plan_reset("billing", as_of + timedelta(seconds=1), topic="payments")
    ends = bench.lag("billing").table.to_pylist()
    mine = [row["end_offset"] for row in ends if row["topic"] == "payments"]
    assert late.table.column("new_start_offset").to_pylist() == mine
    early = bench.plan_reset("billing", as_of - timedelta(seconds=40), topic="payments")
    assert all(
        new is None or new <= end
        for new, end in zip(early.table.column("new_start_offset").to_pylist(), mine, strict=True)
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "one target is needed"),
        ({"to": "earliest", "shift_by": 1}, "one target is needed"),
        ({"to": "begin"}, "unknown target 'begin'"),
        ({"to": -1}, "-1 is not an offset"),
        ({"to": datetime(2026, 11, 21)}, "has no time zone"),
        ({"to": "latest", "topic": "ordres"}, "no state of topic 'ordres'"),
    ],
)
def test_what_is_no_reset_is_an_error(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sharelag.open("poison", engine="local").plan_reset("poison", **given)


@pytest.mark.row("CLI-04")
def test_a_time_is_read_and_written_as_kafkas_command_has_it() -> None:
    """GL-19c."""
    at = "1999-12-31T23:57:00.000"
    options = ("--capture", "chapters", "--group", "billing", "--topic", "orders")
    done = command("plan-reset", *options, "--to-datetime", at, "-o", "json")
    assert done.returncode == 0
    wanted = f"--group billing --topic orders --reset-offsets --to-datetime {at} --execute"
    assert done.stderr.count(wanted) == 1
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 6
    zoned = command("plan-reset", *options, "--to-datetime", f"{at}Z", "-o", "json")
    assert zoned.stdout == done.stdout


def test_names_are_quoted_for_a_shell() -> None:
    [dry, wet] = kafkas_commands("a b;$(x)", "it's", "latest", "b:9092")
    assert "--group 'a b;$(x)'" in wet
    assert """--topic 'it'"'"'s'""" in wet
    assert (dry.endswith("--dry-run"), wet.endswith("--execute")) == (True, True)
    at = datetime(2026, 11, 21, 3, 10, 0, 5000, UTC)
    assert "--to-datetime 2026-11-21T03:10:00.005 " in kafkas_commands("g", None, at)[0]
    assert kafkas_commands("g", None, 5) == []


def test_the_terminal_says_the_same() -> None:
    done = command("plan-reset", "--capture", "chapters", "--group", "billing", "--to-earliest")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:5] == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "NEW-START"]
    assert ["billing", "payments", "0", "490", "0", "0", "500", "500", "0", "0", "-"] in [
        [*line[:10], "-"] for line in lines
    ]
    assert "--reset-offsets --to-earliest --execute" in done.stderr
    both = command(
        "plan-reset", "--capture", "chapters", "--group", "x", "--to-earliest", "--to-latest"
    )
    assert both.returncode == 2
    assert "Choose one of --to-earliest" in both.stderr


@pytest.mark.row("WIN-09")
def test_a_reset_into_remote_storage_is_warned_of(tmp_path: Path) -> None:
    """A topic in tiered storage: the broker's own disk begins at 5000."""
    local = tmp_path / "local.txt"
    local.write_text("orders:0:5000\norders:1:\norders:2:90\npayments:0:5000\n")
    given = ("plan-reset", "--capture", "chapters", "--group", "billing", "--topic", "orders")
    far = ("--to-offset", "100", "--local-offsets", str(local))
    done = command(*given, *far, "-o", "json")
    assert done.returncode == 0, done.stderr
    remote = {row["partition"]: row["remote"] for row in map(json.loads, done.stdout.splitlines())}
    assert remote == {0: 4900, 1: None, 2: 0, 3: None, 4: None, 5: None}
    warned = "Remote reads: 4900 offsets in 1 of 6 share partitions are in remote storage alone"
    assert warned in done.stderr
    near = command(*given, "--to-offset", "100", "-o", "json")
    assert "Remote" not in near.stderr
    assert {json.loads(line)["remote"] for line in near.stdout.splitlines()} == {None}
    bench = sharelag.open("chapters", engine="local")
    plan = bench.plan_reset("billing", 100, topic="orders", local_offsets=local)
    assert plan.table.column("remote").to_pylist()[0] == 4900
    local.write_text("orders:0\n")
    assert "'orders:0' is not TOPIC:PARTITION:OFFSET" in command(*given, *far).stderr
    assert "cannot read offsets from" in command(*given, *far[:-1], str(tmp_path / "gone")).stderr
