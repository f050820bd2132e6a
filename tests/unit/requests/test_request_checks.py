"""What checkers find in a log of requests, and that they are quiet where nothing is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.metrics.columns import series
from sharelag.wire.fields import STATE_TOPIC
from tests.support.command import sharelag
from tests.support.request_lines import (
    TOPIC,
    acknowledge,
    described,
    fetch,
    log_of,
    rows,
    shown,
    state_call,
)

WRITE = "WriteShareGroupState"
REFUSED = (
    "write with leader epoch 4 and state epoch 1 was refused: the leader epoch is an older one"
)


def found(folder: Path, *lines: str, history: pa.Table | None = None) -> list[tuple[Any, ...]]:
    return rows(log_of(folder, *lines).findings(history), "finding", "summary")


@pytest.mark.row("FET-03")
def test_session_epochs_follow_each_other(tmp_path: Path) -> None:
    fine = [fetch(n, "a", n) for n in range(3)] + [acknowledge(3, "a", 3, [])]
    closed = acknowledge(4, "a", -1, [])
    assert found(tmp_path, *fine, closed, fetch(5, "a", 0)) == []
    gap = [fetch(0, "a", 0), fetch(1, "a", 1), fetch(2, "a", 3), fetch(2, "b", 9)]
    words = "session epoch 3 follows 1: a request is missing or was sent twice"
    assert found(tmp_path, *gap) == [("session epoch gap", words)]


@pytest.mark.row("SEC-05")
def test_an_error_that_the_request_never_has(tmp_path: Path) -> None:
    listed = [fetch(0, "a", 0, error=121), fetch(1, "a", 1, error=6), acknowledge(2, "a", 2, [])]
    calls = [state_call(WRITE, 3, leaderEpoch=1, stateEpoch=1, startOffset=0, stateBatches=[])]
    assert found(tmp_path, *listed, *calls) == []
    log = tmp_path / "kafka-request.log"
    one = fetch(0, "a", 0).replace('"errorCode":0', '"errorCode":68', 1)
    other = fetch(1_000, "a", 1, acknowledged=[(0, 4, [1])], error=999)
    log.write_text(f"{one}\n{other}\n")
    unlisted = "ShareFetch was answered with {}, which Kafka does not list for it"
    assert [(row["finding"], row["summary"]) for row in shown(log, "findings")] == [
        ("unlisted error", unlisted.format("NON_EMPTY_GROUP: the group has members")),
        ("unlisted error", unlisted.format("error 999")),
    ]


def test_errors_are_counted_and_explained(tmp_path: Path) -> None:
    lock = [fetch(n, "a", n, acknowledged=[(n, n, [1])], error=121) for n in range(3)]
    whole = acknowledge(3_000, "a", 3, [(5, 9, [1])]).replace('"errorCode":0', '"errorCode":122', 1)
    refused = [fetch(n, "a", n).replace('"errorCode":0', '"errorCode":30', 1) for n in (5, 6)]
    fine = fetch(4_000, "b", 0, [(10, 19, 1)])
    table = log_of(tmp_path, *lock, whole, fine, *refused).table("errors")
    assert rows(table, "group_id", "api", "error_code", "error_name", "answers") == [
        ("g", "ShareFetch", 121, "INVALID_RECORD_STATE", 3),
        ("g", "ShareFetch", 30, "GROUP_AUTHORIZATION_FAILED", 2),
        ("g", "ShareAcknowledge", 122, "SHARE_SESSION_NOT_FOUND", 1),
    ]
    assert table.column("meaning")[0].as_py() == "the member does not hold the record any more"
    assert "share.record.lock.duration.ms" in table.column("advice")[0].as_py()
    assert table.column("advice")[1].as_py().endswith("--operation Describe --group g")
    done = sharelag("requests", str(tmp_path / "kafka-request.log"), "--show", "errors")
    assert "INVALID_RECORD_STATE" in done.stdout
    assert "the member does not hold the record any more" in done.stdout


@pytest.mark.row("GRP-15", "ADM-12")
def test_a_group_is_empty_before_it_is_dead(tmp_path: Path) -> None:
    fine = [described(n, state, 5) for n, state in enumerate(["Empty", "Stable", "Empty", "Dead"])]
    assert found(tmp_path, *fine) == []
    (only,) = found(tmp_path, described(0, "Stable", 5), described(1, "Dead", 5))
    assert only == ("group state", "Stable, then Dead: it was not seen Empty, which comes between")


@pytest.mark.row("GRP-18")
def test_assignment_epochs_never_go_back(tmp_path: Path) -> None:
    assert found(tmp_path, described(0, "Stable", 4), described(1, "Stable", 5)) == []
    (only,) = found(tmp_path, described(0, "Stable", 5), described(1, "Stable", 4))
    assert only == ("assignment epoch went back", "assignment epoch 4 after 5: it never goes back")


def test_a_group_that_was_deleted_begins_anew(tmp_path: Path) -> None:
    again = [
        described(n, state, epoch)
        for n, (state, epoch) in enumerate([("Empty", 5), ("Dead", 0), ("Stable", 1)])
    ]
    assert found(tmp_path, *again) == []


def test_two_groups_without_a_member_id_are_two_runs() -> None:
    columns: dict[str, Any] = {"group_id": ["a", "a", "b"], "member_id": pa.nulls(3, pa.string())}
    columns |= {"timestamp": [1, 2, 3], "source": ["log"] * 3, "position": [0, 1, 2]}
    _, first = series(pa.table(columns), ("group_id", "member_id"))
    assert first.tolist() == [True, False, True]


@pytest.mark.row("PSS-05")
def test_leader_epochs_never_go_back(tmp_path: Path) -> None:
    def write(at: int, epoch: int, error: int = 0) -> str:
        return state_call(
            WRITE, at, leaderEpoch=epoch, stateEpoch=1, startOffset=0, stateBatches=[], error=error
        )

    assert found(tmp_path, write(0, 4), write(1, 5)) == []
    assert found(tmp_path, write(0, 5), write(1, 4)) == [
        ("leader epoch went back", "leader epoch 4 after 5: it never goes back")
    ]
    assert found(tmp_path, write(0, 5), write(1, 4, error=74)) == [("fenced", REFUSED)]


@pytest.mark.row("ADM-01")
def test_a_state_that_was_deleted_in_part_is_found(tmp_path: Path) -> None:
    def deleted(*partitions: int) -> list[str]:
        return [state_call("DeleteShareGroupState", 10 + n, n) for n in partitions]

    begun = [state_call("InitializeShareGroupState", n, n, stateEpoch=1) for n in (0, 1)]
    assert found(tmp_path, *begun) == []
    assert found(tmp_path, *begun, *deleted(0, 1)) == []
    words = "the state of 1 of 2 partitions was deleted: the deletion goes on, or stopped halfway"
    assert found(tmp_path, *begun, *deleted(0)) == [("partial delete", words)]


@pytest.mark.row("ADM-01")
def test_tombstones_of_some_partitions_are_a_partial_delete(tmp_path: Path) -> None:
    log = log_of(tmp_path, described(0, "Empty", 1))
    rest = _history((0, 0, "snapshot"), (1, 1, "snapshot"), (0, 2, "tombstone"))
    assert rows(log.findings(rest), "finding") == [("partial delete",)]
    gone = _history((0, 0, "snapshot"), (0, 2, "tombstone"), (1, 3, "tombstone"))
    assert log.findings(gone).num_rows == 0


@pytest.mark.row("PSS-05")
def test_records_of_an_older_leader_are_found(tmp_path: Path) -> None:
    log = log_of(tmp_path, described(0, "Empty", 1))
    records = _history((0, 0, "update"), (0, 1, "update"), epochs=(5, 4))
    assert rows(log.findings(records), "summary") == [
        ("leader epoch 4 after 5: it never goes back",)
    ]


def test_a_write_without_a_record_is_found(tmp_path: Path) -> None:
    writes = [
        state_call(WRITE, at, leaderEpoch=0, startOffset=at, stateBatches=[])
        for at in (100, 500, 900)
    ]
    records = _history((0, 0, "snapshot"), (0, 1, "update"), (0, 2, "update"), times=(99, 499, 899))
    assert found(tmp_path, *writes, history=records) == []
    # The first may have been pruned, the second has none.
    (only,) = found(tmp_path, *writes, history=records.take([0, 2]))
    assert only[0] == "write without a record"
    assert found(tmp_path, *writes, history=records.take([1, 2])) == []


def _history(
    *records: tuple[int, int, str], epochs: tuple[int, ...] = (), times: tuple[int, ...] = ()
) -> pa.Table:
    begin = datetime(2026, 11, 23, tzinfo=UTC)
    place = {"group_id": "g", "topic_id": TOPIC, "record_topic": STATE_TOPIC, "record_partition": 0}
    made = [
        place
        | {"partition": partition, "record_offset": offset, "record_kind": kind, "state_epoch": 1}
        | {"record_timestamp": begin + timedelta(milliseconds=times[n] if times else offset)}
        | {"leader_epoch": epochs[n] if epochs else 0}
        for n, (partition, offset, kind) in enumerate(records)
    ]
    return pa.Table.from_pylist(made, schema=schemas.HISTORY)
