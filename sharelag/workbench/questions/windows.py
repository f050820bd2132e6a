"""What coordinators hold of share partitions, now and at earlier moments."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError, unknown_topic
from sharelag.metrics.holders import with_holders
from sharelag.reading import ORDER, named
from sharelag.tables import gaps, views
from sharelag.tables.words import counted
from sharelag.workbench import charts
from sharelag.workbench.one_group import delivery_limit
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result

#: Moments of windows, when nobody says how many.
MOST_MOMENTS = 240
#: Windows of a past that are brought into this process.
MOST_WINDOWS = 100_000


class WithWindows(Opened):
    """Questions about windows."""

    def windows(self, group: str | None = None) -> Result:
        """What the coordinator holds of every share partition."""
        evidence = self.evidence(group)
        table = self.choice.of(named(evidence.windows, evidence.lag))
        if len(evidence.holders):
            table = with_holders(table, evidence.holders)
        limit = None if group is None else delivery_limit(evidence, group)
        return _windows_answer(table.sort_by(ORDER), self._base(), limit)

    def moments(self, group: str, topic: str | None = None, most: int = MOST_MOMENTS) -> Result:
        """The windows of a group after each of its records, for going back in time.

        Parameters
        ----------
        group : str
        topic : str, optional
            Only this one.
        most : int
            Moments; of more, as many that are evenly apart. Fewer where that were more than
            `MOST_WINDOWS` windows.

        Raises
        ------
        InputError
            The group or the topic is not known, or ``most`` is not a number above 0.
        """
        evidence = self.evidence(group)
        lag = evidence.lag
        if topic is not None:
            topics = lag.column("topic").to_pylist()
            if topic not in topics:
                raise InputError(unknown_topic(topic, topics, group))
            lag = lag.filter(pc.equal(lag.column("topic"), topic))
        if not isinstance(most, int) or most < 1:
            raise InputError(f"cannot show {most!r} moments: give a whole number above 0")
        most = max(min(most, MOST_WINDOWS // max(lag.num_rows, 1)), 1)
        table = self._ask(
            ("moments", group, topic, most), lambda: self.reading.windows_at(lag, most)
        )
        limit = delivery_limit(evidence, group)
        return _windows_answer(named(table, lag), self._base(), limit)

    def windows_at(self, keys: pa.Table, moments: list[int]) -> pa.Table:
        """The windows of some share partitions at given moments; see `Reading.windows_at`."""
        question = ("windows at", tuple(map(tuple, keys.to_pydict().values())), tuple(moments))
        return self._ask(question, lambda: self.reading.windows_at(keys, moments))


def _windows_answer(table: pa.Table, base: Result, limit: int | None = None) -> Result:
    """What the coordinator holds of each share partition."""
    without = int(pc.sum(pc.invert(table.column("from_snapshot").fill_null(False))).as_py() or 0)
    drawn = {
        "deliveries": lambda theme: charts.delivery_count_figure(
            charts.delivery_count_records(table), theme, limit
        ),
        "states": lambda theme: charts.window_state_figure(
            charts.window_state_records(table), theme, limit
        ),
    }
    if len(table) != 1:
        drawn.pop("states")  # a chart of one share partition
    unknown = gaps.of_rows(
        without, len(table), "the whole state", ["no snapshot is among the records"]
    )
    return replace(
        base,
        title=f"Windows of {counted(len(table), 'share partition')}",
        table=table,
        columns=views.windows_with("notes" in table.column_names),
        order="window_end_offset",
        charts=drawn,
        unknown=unknown + base.unknown,
    )
