"""ShareAcknowledge as a draft of KIP-932 had it, in a request log."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharelag.wire.requests.lines import split_at_gaps
from tests.support.command import sharelag
from tests.support.request_lines import acknowledge, fetch, line, log_of, of_topic, rows, shown

RUN = ("first_offset", "last_offset")


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
    printed = sharelag("requests", str(tmp_path), "--show", "acknowledgements").stdout
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
