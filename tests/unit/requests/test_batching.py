"""How much of what members acquire at once they acknowledge at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import sharelag
from tests.support.request_lines import acknowledge, fetch, log_of

INVALID_RECORD_STATE = 121


def shown(folder: Path, *lines: str) -> list[dict[str, Any]]:
    """What the command prints."""
    log_of(folder, *lines)
    done = sharelag("requests", str(folder), "--show", "batching", "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(one) for one in done.stdout.splitlines()]


@pytest.mark.row("ACK-15")
def test_a_batch_that_is_acknowledged_as_one(tmp_path: Path) -> None:
    """GL-01, step 2: one range, 100-109."""
    steps = [fetch(1_000, "m", 0, [(100, 109, 1)]), acknowledge(2_000, "m", 1, [(100, 109, [1])])]
    log_of(tmp_path, *steps)
    done = sharelag("requests", str(tmp_path), "--show", "acknowledgements", "-o", "json")
    (said,) = (json.loads(one) for one in done.stdout.splitlines())
    assert (said["first_offset"], said["last_offset"], said["acknowledge_type"]) == (100, 109, 1)
    (row,) = shown(tmp_path, *steps)
    assert (row["acknowledged_runs"], row["whole_runs"], row["whole_ratio"]) == (1, 1, 1.0)
    assert (row["acquired_offsets"], row["acknowledged_offsets"]) == (10, 10)


@pytest.mark.row("FET-05")
def test_batches_that_are_acknowledged_in_parts(tmp_path: Path) -> None:
    parts = [(100, 104, [1]), (105, 109, [2])]
    neighbours = [(110, 129, [1])]
    (first, second) = shown(
        tmp_path,
        fetch(1_000, "a", 0, [(100, 109, 1), (110, 119, 1), (120, 129, 1)]),
        acknowledge(2_000, "a", 1, [*parts, *neighbours, (100, 109, [4])]),
        acknowledge(3_000, "a", 2, [(100, 109, [1])], error=INVALID_RECORD_STATE),
        fetch(4_000, "b", 0, [(105, 109, 2)]),
    )
    # What two runs were acquired as, one may acknowledge; renewals and refusals are none.
    counted = ("member_id", "acquired_runs", "acknowledged_runs", "whole_runs", "whole_ratio")
    assert [first[name] for name in counted] == ["a", 3, 3, 1, pytest.approx(1 / 3)]
    assert [second[name] for name in counted] == ["b", 1, 0, 0, None]
