"""The amounts of a what-if are written as charts write them, and marked as amounts."""

import pyarrow as pa

from sharelag.whatif import compared
from sharelag.whatif.comparison.tables import RUNS
from sharelag_widgets import LagTable
from sharelag_widgets.dashboards.trials import DIFFERENCES, difference_rows
from tests.support.fields import assert_fields


def rows() -> pa.Table:
    """A variant with less lag and later drained than the group as it is, in four runs."""
    values = {
        "now": [(1_234_567, 90_000, 0.5)] * 4,
        "more": [(2_390 + n, 187_000 + 1000 * n, 999.6) for n in range(4)],
    }
    names = ("variant", "seed", "error", "lag_max", "drain_ms", "member_hours")
    made = [
        dict(zip(names, (name, seed, None, *measures), strict=True))
        for name, runs in values.items()
        for seed, measures in enumerate(runs)
    ]
    return difference_rows(
        compared(pa.Table.from_pylist(made, pa.schema([RUNS.field(name) for name in names])))
    )


def test_amounts_have_separators_and_spans_of_time_their_units() -> None:
    found = {row["measure"].split(" (")[0]: row for row in rows().to_pylist()}
    lag, drain, hours = (found[name] for name in ("lag max", "drain", "member hours"))
    assert (lag["baseline"], lag["tried"]) == ("1,234,567", "2,392")
    assert lag["difference"] == "-1,232,176"
    assert all(
        len(end.split(",")) == 3 and end.startswith("-1") for end in lag["interval"].split(" to ")
    )
    assert_fields(drain, baseline="1m 30s", tried="3m 8s", difference="+1m 38s")
    assert all(end.startswith("+1m ") for end in drain["interval"].split(" to "))
    assert (hours["baseline"], hours["tried"]) == ("0.5", "1,000")


def test_a_table_knows_which_of_its_words_are_amounts() -> None:
    columns = [name for name in DIFFERENCES.names if name != "verdict"]
    table = LagTable.of(rows(), columns=columns, keys=["measure", "variant"], sort="")
    assert table.amounts == ["baseline", "tried", "difference", "interval"]
    assert LagTable.of(pa.table({"baseline": ["1m 30s"]}), keys=["baseline"]).amounts == []
