"""Who held what, and how each lock ended, by requests in a log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sharelag.errors import InputError
from tests.support.request_lines import (
    acknowledge,
    fetch,
    log_of,
    rows,
    state_call,
)

HOLD = ("member_id", "first_offset", "last_offset", "ended_by")


def at(ms: int) -> datetime:
    return datetime(2026, 11, 23, tzinfo=UTC) + timedelta(milliseconds=ms)


def test_acknowledgements_end_what_they_name(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "a", 0, [(0, 9, 1)]),
        acknowledge(1_500, "a", 1, [(0, 3, [1]), (4, 4, [2]), (5, 5, [3]), (6, 6, [0])]),
    )
    assert rows(log.table("holds"), *HOLD) == [
        ("a", 0, 3, "accept"),
        ("a", 4, 4, "release"),
        ("a", 5, 5, "reject"),
        ("a", 6, 6, "gap"),
        ("a", 7, 9, None),
    ]
    assert rows(log.table("held"), *HOLD[:3]) == [("a", 7, 9)]
    assert rows(log.table("held", at(1_200)), *HOLD[:3]) == [
        ("a", 0, 3),
        ("a", 4, 4),
        ("a", 5, 5),
        ("a", 6, 6),
        ("a", 7, 9),
    ]


def test_a_refused_acknowledgement_ends_nothing(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "a", 0, [(0, 0, 1)]),
        acknowledge(1_500, "a", 1, [(0, 0, [1])], error=121),
    )
    assert rows(log.table("holds"), *HOLD) == [("a", 0, 0, None)]


def test_nobody_ends_what_another_holds(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "a", 0, [(0, 0, 1)]),
        acknowledge(1_500, "b", 1, [(0, 0, [1])]),
    )
    assert rows(log.table("holds"), *HOLD) == [("a", 0, 0, None)]


def test_a_lock_expires_unless_it_is_renewed(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "a", 0, [(0, 1, 1)]),
        acknowledge(4_000, "a", 1, [(1, 1, [4])]),
        fetch(7_000, "b", 0, [(0, 0, 2)]),
    )
    assert rows(log.table("holds"), *HOLD) == [
        ("a", 0, 0, "lock expired"),
        ("b", 0, 0, None),
        ("a", 1, 1, None),
    ]
    expired, _, renewed = log.table("holds").column("locked_until").to_pylist()
    assert expired == at(5_999) + timedelta(microseconds=500)
    assert renewed - expired == timedelta(milliseconds=2_999)


def test_a_closed_session_ends_what_was_not_acknowledged(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "a", 0, [(0, 5, 1)]),
        acknowledge(2_000, "a", -1, [(0, 2, [1])]),
        fetch(3_000, "b", 0),
    )
    assert rows(log.table("holds"), *HOLD) == [
        ("a", 0, 2, "accept"),
        ("a", 3, 5, "session closed"),
    ]


def test_another_leader_knows_of_no_lock(tmp_path: Path) -> None:
    read = state_call("ReadShareGroupState", 2_000, leaderEpoch=1, answer={"stateBatches": []})
    log = log_of(tmp_path, fetch(1_000, "a", 0, [(0, 0, 1)]), read)
    assert rows(log.table("holds"), *HOLD) == [("a", 0, 0, "leader changed")]


def test_a_state_that_is_written_ends_what_was_held(tmp_path: Path) -> None:
    batch = {"firstOffset": 0, "lastOffset": 0, "deliveryState": 0, "deliveryCount": 1}
    write = state_call("WriteShareGroupState", 2_000, startOffset=0, stateBatches=[batch])
    # The connection was lost, which no request tells: the leader gave offset 0 back.
    log = log_of(tmp_path, fetch(1_000, "a", 0, [(0, 1, 1)]), write)
    assert rows(log.table("holds"), *HOLD) == [
        ("a", 0, 0, "state written"),
        ("a", 1, 1, None),
    ]


def test_an_acknowledgement_within_a_millisecond_comes_after_what_it_acknowledges(
    tmp_path: Path,
) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "a", 0, [(0, 0, 1)]),
        fetch(1_000, "a", 1, [(1, 1, 1)], [(0, 0, [1])]),
    )
    assert rows(log.table("holds"), *HOLD) == [("a", 0, 0, "accept"), ("a", 1, 1, None)]


def test_a_moment_outside_the_log_is_an_error(tmp_path: Path) -> None:
    log = log_of(tmp_path, fetch(1_000, "a", 0, [(0, 0, 1)]))
    with pytest.raises(InputError, match="which does not include that moment"):
        log.table("held", at(60_000))
