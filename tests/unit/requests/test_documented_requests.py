"""Requests in a broker's log that the KIPs describe: the walk from 100 to 120, and drafts."""

import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag.model import StateBatch, iso
from sharelag.schemas import RECORDS
from sharelag.wire import encode
from sharelag.wire.requests.lines import split_at_gaps
from tests.support.command import ask
from tests.support.command import sharelag as command
from tests.support.generations import raw_of, records
from tests.support.older_records import keyed, row
from tests.support.records import raw_file, with_column
from tests.support.request_lines import (
    TOPIC,
    acknowledge,
    batches,
    fetch,
    line,
    log_of,
    of_topic,
    rows,
    shown,
    state_call,
)
from tests.support.walk import ACKNOWLEDGED, ACQUIRED, LIVE, RECOVERED, WALK, by_offset

COORDINATOR_LOAD_IN_PROGRESS = 14
#: The name that `log_of` gives to a log.
LOG = "kafka-request.log"
#: KIP-932 has no epochs in its first requests; Kafka sends them always.
EPOCHS: dict[str, Any] = {"stateEpoch": 0, "leaderEpoch": 0}
RUN = ("first_offset", "last_offset")


def runs_of(call: dict[str, Any]) -> list[tuple[int, int, int, int]]:
    return [tuple(one.values()) for one in call["state_batches"]]


def recorded(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the records that a coordinator makes of the writes that a request log has."""
    writes = [
        (-1 if call["start_offset"] is None else call["start_offset"], runs_of(call))
        for call in calls
    ]
    rows = records(writes, 4).to_pylist()
    for made, call in zip(rows, calls, strict=True):
        made |= {name: call[name] for name in ("group_id", "topic_id", "partition")}
        # The record was written before the answer, which is what the log has.
        made["timestamp"] = datetime.fromisoformat(call["timestamp"]) - timedelta(milliseconds=1)
    return rows


def opened(folder: Path, rows: list[dict[str, Any]]) -> sharelag.Workbench:
    """Records beside the request log of a folder."""
    path = raw_file(folder, encode(pa.RecordBatch.from_pylist(rows, schema=RECORDS)))
    return sharelag.open(path, engine="local", requests=folder / LOG)


def findings_of(bench: sharelag.Workbench) -> pa.Table:
    assert bench.requests is not None
    return bench.requests.table("findings", history=bench.history().table)


@pytest.mark.row("PSC-20", "RPC-13")
def test_the_walk_is_eight_writes_and_each_of_them_a_record(tmp_path: Path) -> None:
    writes = [
        state_call("WriteShareGroupState", 1_000 * at, version=0, startOffset=start,
                   stateBatches=batches(runs), **EPOCHS)
        for at, (start, runs) in enumerate(WALK.values(), 1)
    ]  # fmt: skip
    log_of(tmp_path, *writes)
    calls = shown(tmp_path / LOG, "state_calls")
    assert len(calls) == 8
    # -1 says that the start offset stays as it was.
    written = [(call["start_offset"], runs_of(call)) for call in calls]
    walk = [(None if start < 0 else start, [*map(tuple, runs)]) for start, runs in WALK.values()]
    assert written == walk
    # What the log says was written is what replays to the window at the end.
    rows = recorded(calls)
    bench = opened(tmp_path, rows)
    (window,) = bench.windows().table.to_pylist()
    runs = [list(run.values()) for run in window["runs"]]
    assert (window["effective_start_offset"], runs) == RECOVERED[11]
    assert findings_of(bench).num_rows == 0
    # Each write has its own record: without one of them exactly that write is found.
    for left_out in range(1, 7):
        bench = opened(tmp_path, [*rows[:left_out], *rows[left_out + 1 :]])
        found = findings_of(bench).to_pylist()
        assert {one["finding"] for one in found} == {"write without a record"}
        (moment,) = {one["timestamp"] for one in found}
        assert iso(moment) == calls[left_out]["timestamp"]


@pytest.mark.row("RPC-12")
def test_a_new_leader_reads_the_state_after_step_8(tmp_path: Path) -> None:
    start, runs = RECOVERED[8]
    answer = EPOCHS | {"startOffset": start, "stateBatches": batches(runs)}
    log_of(tmp_path, state_call("ReadShareGroupState", 0, version=0, leaderEpoch=1, answer=answer))
    (call,) = shown(tmp_path, "state_calls")
    assert (call["call"], call["start_offset"]) == ("read", 110)
    assert runs_of(call) == [(110, 112, 0, 1), (113, 119, 2, 1)]


@pytest.mark.row("PSC-15")
def test_a_write_while_the_coordinator_loads_is_refused(tmp_path: Path) -> None:
    asked: dict[str, Any] = EPOCHS | {"startOffset": 110, "stateBatches": []}
    log_of(
        tmp_path,
        state_call("WriteShareGroupState", 0, error=COORDINATOR_LOAD_IN_PROGRESS, **asked),
        state_call("WriteShareGroupState", 900, **asked),
    )
    assert [one["error_code"] for one in shown(tmp_path, "state_calls")] == [14, 0]
    (error,) = shown(tmp_path, "errors")
    assert error["error_name"] == "COORDINATOR_LOAD_IN_PROGRESS"
    assert error["meaning"] == "the coordinator is still reading its partition"


@pytest.mark.row("RPC-09", "RPC-15")
@pytest.mark.parametrize("generation", [2, 4])
def test_a_state_that_is_deleted_leaves_tombstones(tmp_path: Path, generation: int) -> None:
    """Offsets of a group are deleted, so its state; the first tombstone alone ends it."""
    request = {"groupId": "g", "topics": [{"topicName": "t1"}]}
    answered = {"topicName": "t1", "topicId": TOPIC, "errorCode": 0, "errorMessage": None}
    log_of(
        tmp_path,
        line("DeleteShareGroupOffsets", 0, request, {"errorCode": 0, "responses": [answered]}),
        *(state_call("DeleteShareGroupState", at, at, version=0) for at in (0, 1)),
    )
    (asked,) = shown(tmp_path / LOG, "offset_calls")
    assert (asked["call"], asked["topic"], asked["error_code"]) == ("delete offsets", "t1", 0)
    calls = shown(tmp_path / LOG, "state_calls")
    place = ("group_id", "topic_id", "partition")
    found = [tuple(call[name] for name in ("call", *place[:2])) for call in calls]
    assert found == [("delete", asked["group_id"], asked["topic_id"])] * 2
    of_call = [{name: call[name] for name in place} for call in calls]
    if generation == 2:
        states = [one | of for of in of_call for one in keyed()]
        # A checkpoint and its deltas have keys of their own.
        ends = [
            [row(2, 0, 0, None, [], tombstone=True)]
            + [
                row(2, 0, 1, None, [], tombstone=True, older_fields=[("delta_index", index)])
                for index in range(3)
            ]
        ] * 2
    else:
        states = [one | of for of in of_call for one in records(WALK.values(), 4).to_pylist()]
        ends = [[states[0] | {"tombstone": True, "generation": None}]] * 2
    tombstones = [[one | of for one in end] for of, end in zip(of_call, ends, strict=True)]
    for deleted, left in (([], {0, 1}), (tombstones[0][:1], {1}), (tombstones[0], {1}),
                          ([*tombstones[0], *tombstones[1][:1]], set())):  # fmt: skip
        rows = [one | {"offset": offset} for offset, one in enumerate([*states, *deleted])]
        windows = opened(tmp_path, rows).windows().table.to_pylist()
        assert {window["partition"] for window in windows} == left


@pytest.mark.row("RPC-10", "RPC-17")
@pytest.mark.parametrize(("version", "lag"), [(0, {}), (1, {"lag": -1})])
def test_one_hop_without_count_hides_lag(version: int, lag: dict[str, int], tmp_path: Path) -> None:
    """The leader may speak version 1, the share coordinator version 0: nothing has the count."""
    summary = EPOCHS | {"startOffset": 110}
    part = {"partitionIndex": 0, "startOffset": 110, "leaderEpoch": 0, "errorCode": 0} | lag
    topic = {"topicName": "t1", "topicId": TOPIC, "partitions": [part]}
    answer = {"groups": [{"groupId": "G1", "topics": [topic], "errorCode": 0}]}
    log_of(
        tmp_path,
        state_call("ReadShareGroupStateSummary", 0, version=0, leaderEpoch=0, answer=summary),
        line("DescribeShareGroupOffsets", 1, {"groups": []}, answer, version=version),
    )
    assert [one["delivery_complete_count"] for one in shown(tmp_path, "state_calls")] == [None]
    (call,) = shown(tmp_path, "offset_calls")
    assert (call["group_id"], call["start_offset"], call["lag"]) == ("G1", 110, None)
    # The same of records without the count, as brokers before KIP-1226 wrote them.
    (row,) = ask("lag", "--raw", raw_file(tmp_path, raw_of(WALK.values(), 3)))
    assert row["lag"] is None


# ---- the walk, live ------------------------------------------------------------------------------
ACCEPT, RELEASE = [1], [2]
#: Step -> what members ask for, at milliseconds. Locks take five seconds.
ASKED = {
    1: [fetch(1_000, "c1", 0, [(100, 109, 1)])],
    2: [acknowledge(2_000, "c1", 1, [(100, 109, ACCEPT)])],
    3: [
        fetch(3_000, "c1", 2, [(110, 112, 1)]),
        fetch(4_500, "c2", 0, [(113, 118, 1)]),
        fetch(4_600, "c3", 0, [(119, 119, 1)]),
    ],
    4: [acknowledge(5_000, "c1", 3, [(110, 110, RELEASE)])],
    5: [acknowledge(5_500, "c3", 1, [(119, 119, ACCEPT)])],
    6: [fetch(6_000, "c1", 4, [(110, 110, 2), (120, 120, 1)])],
    8: [acknowledge(8_500, "c2", 1, [(113, 118, ACCEPT)])],
    9: [fetch(9_000, "c3", 2, [(111, 112, 2)])],
    10: [acknowledge(9_500, "c1", 5, [(110, 110, ACCEPT)])],
    11: [acknowledge(10_000, "c3", 3, [(111, 112, ACCEPT)])],
}
#: When the request log begins.
BEGIN = datetime(2026, 11, 23, tzinfo=UTC)
#: Step -> when its state is written. After step 7 the locks of 111 and 112 have expired: at 8,000.
WRITTEN = {0: 500, 2: 2_100, 4: 5_100, 5: 5_600, 7: 8_100, 8: 8_600, 10: 9_600, 11: 10_100}


def up_to(step: int) -> list[str]:
    """The request log up to a step."""
    lines = []
    for one in range(step + 1):
        lines += ASKED.get(one, [])
        if one in WALK:
            start, runs = WALK[one]
            asked: dict[str, Any] = {"stateEpoch": 1, "leaderEpoch": 0, "startOffset": start}
            asked |= {"stateBatches": batches(runs)}
            lines.append(state_call("WriteShareGroupState", WRITTEN[one], **asked))
    return lines


def seen(folder: Path, step: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The window that the state records show, and what members hold."""
    found = raw_of([write for at, write in WALK.items() if at <= step], 4)
    log_of(folder, *up_to(step))
    (window,) = ask("windows", "--raw", raw_file(folder, found))
    return window, shown(folder / LOG, "held")


@pytest.mark.row("RST-04", "RST-05", "RST-06", "WIN-02", "WIN-03", "WIN-21")
@pytest.mark.parametrize("step", LIVE)
def test_the_live_window_after_each_step(tmp_path: Path, step: int) -> None:
    window, held = seen(tmp_path, step)
    start, end, expected = LIVE[step]
    assert window["effective_start_offset"] == start
    acquired = [(one["first_offset"], one["last_offset"], one["delivery_count"]) for one in held]
    runs = by_offset([StateBatch(*run) for run in window["runs"]])
    runs |= {o: (ACQUIRED, n) for first, last, n in acquired for o in range(first, last + 1)}
    # The walk prints no counts of finished records but those of its writes.
    live = by_offset([StateBatch(*run) for run in expected])
    live |= {o: (2, runs[o][1]) for o, (state, _) in live.items() if state == ACKNOWLEDGED}
    assert runs == live
    assert max([start, window["window_end_offset"], *(last + 1 for _, last, _ in acquired)]) == end


@pytest.mark.row("FET-07")
def test_a_partial_acknowledgement_leaves_fragments(tmp_path: Path) -> None:
    """GL-01: after step 8 the window of eleven offsets is in four runs."""
    window, _ = seen(tmp_path, 8)
    raw, log = tmp_path / "raw.parquet", tmp_path / LOG
    # Of the same share partition.
    mine = log.read_text().replace(TOPIC, window["topic_id"])
    log.write_text(re.sub(r'"groupId": ?"g"', '"groupId": "G1"', mine))
    written = [BEGIN + timedelta(milliseconds=at) for step, at in WRITTEN.items() if step <= 8]
    pq.write_table(with_column(pq.read_table(raw), "timestamp", written), raw)
    moment = ("--as-of", "2026-11-23T00:00:08.600Z")
    given = ("windows", "--raw", str(raw), "--picture", "--requests", str(log))
    drawn = command(*given, *moment, code=0)
    assert "  4 runs over 11 offsets with a known state\n" in drawn.stdout
    state = next(line for line in drawn.stdout.splitlines() if "state  " in line)
    assert state.split() == ["state", "Q", "A", "A", "K", "Q"]


def test_how_each_lock_of_the_walk_ended(tmp_path: Path) -> None:
    log_of(tmp_path, *up_to(11))
    ends = {
        (one["first_offset"], one["last_offset"], one["delivery_count"]): one["ended_by"]
        for one in shown(tmp_path, "holds")
    }
    assert ends == {
        (100, 109, 1): "accept",
        (110, 110, 1): "release",
        (111, 112, 1): "lock expired",
        (113, 118, 1): "accept",
        (119, 119, 1): "accept",
        (110, 110, 2): "accept",
        (120, 120, 1): None,
        (111, 112, 2): "accept",
    }
    assert shown(tmp_path, "findings") == []


def draft(at: int, epoch: int, batches: list[dict[str, Any]], session: int = 7) -> str:
    asked = of_topic({"partitionIndex": 0, "acknowledgementBatches": batches})
    answered = of_topic({"partitionIndex": 0, "errorCode": 0})
    return line(
        *("ShareAcknowledge", at, {"sessionId": session, "sessionEpoch": epoch, "topics": asked}),
        {"errorCode": 0, "responses": answered},
        version=0,
    )


def batch(first: int, last: int, **more: Any) -> dict[str, Any]:
    return {"startOffset": first, "lastOffset": last, "gapOffsets": []} | more


@pytest.mark.row("RPC-07")
def test_a_session_of_the_draft_has_no_member(tmp_path: Path) -> None:
    log_of(
        tmp_path,
        draft(1, 3, [batch(5, 9, acknowledgeType=0)]),
        acknowledge(2, "m", 3, [(5, 9, [1])]),
    )
    names = ("api", "session_id", "session_epoch", "member_id", "group_id", "legacy")
    assert [tuple(one[name] for name in names) for one in shown(tmp_path, "requests")] == [
        ("ShareAcknowledge", 7, 3, None, None, True),
        ("ShareAcknowledge", None, 3, "m", "g", False),
    ]
    names = ("member_id", *RUN, "acknowledge_word", "error_code", "legacy")
    found = shown(tmp_path, "acknowledgements")
    said = [tuple(one[name] for name in names) for one in found]
    assert said == [(None, 5, 9, "accept", 0, True), ("m", 5, 9, "accept", 0, False)]


@pytest.mark.row("ACK-02")
@pytest.mark.parametrize(
    ("given", "code", "word"),
    [
        *((n, n, word) for n, word in enumerate(("accept", "release", "reject"))),
        *((word, n, word) for n, word in enumerate(("accept", "release", "reject"))),
        (3, 3, "unknown 3"),
        (-1, -1, "unknown -1"),
        ("renew", None, "unknown renew"),
        (None, 0, "accept"),  # left out: its default
    ],
)
def test_numbers_and_words_of_the_draft(
    tmp_path: Path, given: int | str | None, code: int | None, word: str
) -> None:
    said = {} if given is None else {"acknowledgeType": given}
    log_of(tmp_path, draft(1, 3, [batch(0, 4, acknowledgeType=1), batch(5, 9, **said)]))
    first, second = shown(tmp_path, "acknowledgements")
    assert (first["acknowledge_type"], first["acknowledge_word"]) == (1, "release")
    assert (second["acknowledge_type"], second["acknowledge_word"]) == (code, word)
    printed = command("requests", str(tmp_path), "--show", "acknowledgements").stdout
    assert f" {word} " in printed


def test_todays_numbers_have_words_too(tmp_path: Path) -> None:
    log = log_of(tmp_path, acknowledge(1, "m", 1, [(0, 5, [0, 1, 2, 3, 4, 9])]))
    assert rows(log.table("acknowledgements"), "acknowledge_type", "acknowledge_word") == [
        *((0, "gap"), (1, "accept"), (2, "release")),
        *((3, "reject"), (4, "renew"), (9, "unknown 9")),
    ]


def test_offsets_without_records_are_gaps(tmp_path: Path) -> None:
    said = batch(5, 9, acknowledgeType=2, gapOffsets=[9, 6, 6])
    log = log_of(tmp_path, draft(1, 3, [said, {"acknowledgeType": 0}]))
    found = rows(log.table("acknowledgements"), *RUN, "acknowledge_type", "acknowledge_word")
    assert found == [
        (5, 5, 2, "reject"),
        (6, 6, None, "gap"),
        (7, 8, 2, "reject"),
        (9, 9, None, "gap"),
        (None, None, 0, "accept"),
    ]


def test_cut_batches_have_each_offset_once() -> None:
    chosen = random.Random(17)
    for _ in range(200):
        first = [chosen.randrange(50) for _ in range(chosen.randrange(1, 5))]
        last = [at + chosen.randrange(12) for at in first]
        gaps = [[chosen.randrange(70) for _ in range(chosen.randrange(4))] for _ in first]
        begins, ends = (pa.array(one, pa.int64()) for one in (first, last))
        columns = split_at_gaps(begins, ends, pa.array(gaps, pa.list_(pa.int64())))
        found = [
            (of, offset, is_gap)
            for of, begin, end, is_gap in zip(*(one.to_pylist() for one in columns), strict=True)
            for offset in range(begin, end + 1)
        ]
        assert found == [
            (of, offset, offset in gaps[of])
            for of, begin in enumerate(first)
            for offset in range(begin, last[of] + 1)
        ]


def test_sessions_of_the_draft_end_no_lock_and_are_no_gap_in_epochs(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1, "m", 0, [(0, 9, 1)]),
        draft(2, 3, [batch(0, 9, acknowledgeType=0)]),
        draft(3, 9, [batch(0, 9, acknowledgeType=0)], session=8),
    )
    assert rows(log.table("holds"), *RUN, "ended_by") == [(0, 9, None)]
    assert log.table("findings").num_rows == 0
    assert rows(log.table("batching"), "member_id", "acknowledged_runs") == [("m", 0)]


def test_a_damaged_line_of_the_draft_is_a_reject(tmp_path: Path) -> None:
    good = draft(1, 3, [batch(5, 9, acknowledgeType=0)])
    log = log_of(tmp_path, good, good.replace('"startOffset":5', '"startOffset":"five"'))
    assert log.table("acknowledgements").num_rows == 1
    assert log.table("rejects").num_rows == 1
