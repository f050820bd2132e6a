"""Which partitions a share session has: what was added, and not forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import sharelag
from tests.support.request_lines import acknowledge, described, fetch, log_of, rows

SPAN = ("member_id", "partition", "ended_by")


def shown(folder: Path, *lines: str) -> list[dict[str, Any]]:
    """What the command prints of sessions."""
    log_of(folder, *lines)
    done = sharelag("requests", str(folder), "--show", "sessions", "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(one) for one in done.stdout.splitlines()]


@pytest.mark.row("FET-02")
def test_a_session_has_what_was_added_and_not_forgotten(tmp_path: Path) -> None:
    """Add t-0 and t-1, forget t-0: t-1 is left."""
    added = [fetch(1_000, "m", 0, partition=0), fetch(2_000, "m", 1, partition=1)]
    both = shown(tmp_path, *added)
    assert [(one["partition"], one["until"]) for one in both] == [(0, None), (1, None)]
    then = shown(tmp_path, *added, fetch(3_000, "m", 2, partition=-1, forgotten=[0]))
    assert [one["partition"] for one in then if one["until"] is None] == [1]
    (gone,) = [one for one in then if one["until"]]
    assert (gone["partition"], gone["ended_by"]) == (0, "forgotten")
    assert gone["until"].startswith("2026-11-23T00:00:02.998")  # when the broker had it


def test_a_session_ends_when_it_is_closed_or_opened_anew(tmp_path: Path) -> None:
    table = log_of(
        tmp_path,
        fetch(1_000, "a", 0, partition=0),
        fetch(2_000, "a", 1, partition=1, forgotten=[0]),
        fetch(3_000, "a", 2, partition=0),
        acknowledge(4_000, "a", -1, []),
        fetch(5_000, "a", 0, partition=2),
        fetch(1_000, "b", 0, partition=0),
        fetch(2_000, "b", 0, partition=0),
        fetch(1_000, "c", 7, partition=4),  # of a session that began before the log
        fetch(2_000, "d", 0, partition=5).replace('"errorCode":0', '"errorCode":30', 1),
    ).table("sessions")
    assert rows(table, *SPAN) == [
        ("a", 0, "forgotten"),
        ("a", 0, "session closed"),
        ("a", 1, "session closed"),
        ("a", 2, None),
        ("b", 0, "session opened anew"),
        ("b", 0, None),
        ("c", 4, None),
    ]


def test_no_session_is_no_row(tmp_path: Path) -> None:
    assert shown(tmp_path, described(0, "Empty", 1)) == []
