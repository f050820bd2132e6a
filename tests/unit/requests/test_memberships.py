"""Who was a member from when to when, and what a member that says nothing new still has."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import sharelag
from tests.support.request_lines import TOPIC, described, heartbeat, log_of, rows

SPAN = ("member_id", "since", "until", "ended_by")
UNKNOWN_MEMBER_ID, NOT_COORDINATOR = 25, 16


def at(milliseconds: int) -> datetime:
    """The moment of a line."""
    return datetime(2026, 11, 23, 0, 0, 0, 1000 * milliseconds, UTC)


def shown(folder: Path, *lines: str) -> list[dict[str, Any]]:
    """What the command prints of members."""
    log_of(folder, *lines)
    done = sharelag("requests", str(folder), "--show", "memberships", "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(one) for one in done.stdout.splitlines()]


@pytest.mark.row("GRP-01")
def test_a_member_that_joins_is_a_row_and_one_that_leaves_has_an_end(tmp_path: Path) -> None:
    (joined,) = shown(tmp_path, heartbeat(10, "m", 0, answered=1, assigned=[0]))
    assert (joined["member_id"], joined["member_epoch"], joined["until"]) == ("m", 1, None)
    assert joined["assigned_partitions"] == [{"topic_id": TOPIC, "partitions": [0]}]
    left = shown(
        tmp_path,
        heartbeat(10, "m", 0, answered=1, assigned=[0]),
        heartbeat(20, "m", 1),
        heartbeat(30, "m", -1),
    )
    assert [(one["since"], one["until"], one["ended_by"]) for one in left] == [
        ("2026-11-23T00:00:00.010Z", "2026-11-23T00:00:00.030Z", "left")
    ]
    assert left[0]["heartbeats"] == 2


@pytest.mark.row("RPC-02")
def test_what_a_heartbeat_leaves_out_is_as_before(tmp_path: Path) -> None:
    """GL-16: null, and -1 for a rebalance timeout that Kafka's request has no more."""
    said = shown(
        tmp_path,
        heartbeat(10, "m", 0, answered=1, rackId="r1", subscribedTopicNames=["a"], assigned=[0]),
        heartbeat(20, "m", 1, rebalanceTimeoutMs=-1),
        heartbeat(30, "m", 1, subscribedTopicNames=["a", "b"]),
        heartbeat(40, "m", 1, answered=2, assigned=[]),
        heartbeat(50, "m", 2, subscribedTopicNames=["a", "b"], assigned=[]),  # nothing new
    )
    names = ("member_epoch", "rack_id", "subscribed_topic_names", "assigned_partitions")
    held = [{"topic_id": TOPIC, "partitions": [0]}]
    assert [tuple(one[name] for name in (*names, "heartbeats")) for one in said] == [
        (1, "r1", ["a"], held, 2),
        (1, "r1", ["a", "b"], held, 1),
        (2, "r1", ["a", "b"], [], 2),
    ]
    assert [one["ended_by"] for one in said] == ["changed", "changed", None]


def test_each_life_of_a_member_begins_without_the_one_before(tmp_path: Path) -> None:
    table = log_of(
        tmp_path,
        heartbeat(10, "a", 0, answered=1, subscribedTopicNames=["x"]),
        heartbeat(20, "a", 0, answered=3, subscribedTopicNames=["y"]),
        heartbeat(30, "a", 3, error=UNKNOWN_MEMBER_ID),
        heartbeat(40, "a", 3, error=UNKNOWN_MEMBER_ID),
        heartbeat(50, "a", 0, answered=4),
        heartbeat(60, "b", -1),  # a member from before the log
        heartbeat(70, "c", 7),
        heartbeat(80, "c", 7, error=NOT_COORDINATOR),
        heartbeat(90, "c", -1),
    ).table("memberships")
    assert rows(table, *SPAN) == [
        ("a", at(10), at(20), "joined again"),
        ("a", at(20), at(30), "removed"),
        ("a", at(50), None, None),
        ("b", None, at(60), "left"),
        ("c", at(70), at(90), "left"),
    ]
    assert rows(table, "subscribed_topic_names") == [(["x"],), (["y"],), (None,), (None,), (None,)]
    assert rows(table, "joined") == [(at(10),), (at(20),), (at(50),), (None,), (None,)]
    assert rows(table, "heartbeats") == [(1,), (1,), (1,), (0,), (1,)]


def test_no_heartbeat_is_no_member(tmp_path: Path) -> None:
    assert shown(tmp_path, described(0, "Empty", 1)) == []
