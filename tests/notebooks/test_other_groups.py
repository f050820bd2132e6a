"""Does a notebook run on every kind of group, when only its parameters are others?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.notebooks.shipped import read

LONG_AGO = "2020-01-01T00:00:00Z"


def run(name: str, **parameters: Any) -> dict[str, Any]:
    """A notebook's code in this process; what it would show is made, but not shown."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(cell for cell in read(name).cells if cell.cell_type == "code"):
        exec(compile(cell.source, f"{name}, code cell {number}", "exec"), names)
        if number == 0:
            names.update(parameters)
    return names


@pytest.mark.parametrize("group", ["analytics", "refunds", "billing"])  # not begun, without records, healthy
@pytest.mark.parametrize("name", ["02_inside_a_window", "04_poison_and_stuck_records"])
def test_it_looks_into_a_window_where_there_is_none(name: str, group: str) -> None:
    names = run(name, where="demo", group=group)
    if name.startswith("02"):
        start = dict.fromkeys(names["bench"].lag(group).table.column("start_offset").to_pylist())
        assert names["selection"].offsets is None if set(start) == {None} else names["selection"].offsets[0] in start
    else:
        assert set(names["runs"]["delivery_count"]) <= {1}


def test_runs_delivered_again_are_listed() -> None:
    runs = run("04_poison_and_stuck_records")["runs"]
    assert runs["delivery_count"].max() > 1
    assert set(runs["delivery_state"]) <= {"available", "acknowledged", "archived"}


@pytest.mark.parametrize("as_of", [None, LONG_AGO])
@pytest.mark.parametrize("name", ["01_lag_today", "03_back_in_time", "09_state_topic"])
def test_it_tells_of_a_cluster_without_a_past(name: str, as_of: str | None) -> None:
    assert run(name, where="not_started", as_of=as_of)["bench"].lag().table.num_rows >= 0
