"""What goes on beside a cluster in trouble is judged: parts that are not told, and other numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sharelag.model import SharePartition
from sharelag.wire import state_partition
from tests.support.kafka.bystanders import Exporter, Watcher

KNOWN = {0: 3, 1: 4, 2: 5}
STATE_PARTITIONS = 6
TOPIC = "AAAAAAAAAAAAAAAAAAAAAA"
STATE = {p: state_partition(SharePartition("still", TOPIC, p), STATE_PARTITIONS) for p in KNOWN}
WHOLE = [{"partition": p, "topic_id": TOPIC, "lag": lag} for p, lag in KNOWN.items()]
MARK = {"complete": False, "unread_state_partitions": [STATE[0]]}
PART = [row | MARK for row in WHOLE[1:]]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (WHOLE, "whole answers of lag --watch"),
        (PART, "answers of lag --watch marked as incomplete"),
        ([*WHOLE[:2], WHOLE[2] | {"lag": None}], "whole answers of lag --watch"),  # end unknown
        (WHOLE[1:], None),
        (PART[1:], None),
        ([WHOLE[0] | MARK, *PART], None),
        ([WHOLE[1], PART[1]], None),
        ([*WHOLE[:2], WHOLE[2] | {"lag": 99}], None),
        ([*WHOLE, WHOLE[2]], None),
    ],
)
def test_an_answer_that_lacks_rows_says_which(
    rows: list[dict[str, Any]], kind: str | None, tmp_path: Path
) -> None:
    assert len(set(STATE.values())) == len(STATE)
    rounds = [[row | {"as_of": at} for row in rows] for at in ("first", "last")]
    text = "".join(f"{json.dumps(row)}\n" for one in rounds for row in one)
    (tmp_path / "watch.txt").write_text(f"sharelag: a note\n{text}{{cut")
    happened, wrong = Watcher([], tmp_path, KNOWN, STATE_PARTITIONS).judged()
    assert (dict(happened), len(wrong)) == (({}, 1) if kind is None else ({kind: 1}, 0))


def _scrape(lags: dict[int, int], total: int | None) -> str:
    lines = [
        f'kafka_share_group_lag{{group="still",topic="still",partition="{p}"}} {lag:.1f}'
        for p, lag in lags.items()
    ]
    if total is not None:
        lines.append(f'kafka_share_group_sum_lag{{group="still"}} {total:.1f}')
    return "\n".join([*lines, 'kafka_share_group_sum_lag{group="busy"} 7.0'])


@pytest.mark.parametrize(
    ("lags", "total", "kind"),
    [
        (KNOWN, 12, "scrapes with all numbers"),
        ({0: 3}, None, "scrapes with some numbers and no sum"),
        ({}, None, "scrapes without numbers of the cluster"),
        ({0: 3, 1: 4}, 7, None),
        ({0: 3, 1: 4}, 12, None),
        (KNOWN, 11, None),
        (KNOWN, None, None),
        ({0: 3, 1: 5}, None, None),
        ({}, 12, None),
    ],
)
def test_a_sum_of_a_part_is_wrong(
    lags: dict[int, int], total: int | None, kind: str | None, tmp_path: Path
) -> None:
    exporter = Exporter([], tmp_path, KNOWN)
    exporter.judge(_scrape(lags, total))
    found = (dict(exporter.happened), len(exporter.wrong))
    assert found == (({}, 1) if kind is None else ({kind: 1}, 0))
