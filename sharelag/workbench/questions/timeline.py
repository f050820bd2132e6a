"""How lag went, at regular moments, and the events of that time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.replay.moment import parse_time
from sharelag.schemas import SHARE_PARTITION
from sharelag.schemas.arrow import keys
from sharelag.tables import gaps, views
from sharelag.tables.words import counted
from sharelag.workbench import charts, investigate
from sharelag.workbench.engine import Answer
from sharelag.workbench.one_group import only
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result, drawing
from sharelag.workbench.spans import span

#: Rows of a timeline that are brought into this process; its DataFrame has all.
MOST_TIMELINE_ROWS = 200_000


class WithTimeline(Opened):
    """Questions about lag over time."""

    def timeline(
        self,
        group: str | None = None,
        every: str | float | timedelta | None = None,
        since: str | datetime | None = None,
    ) -> Result:
        """The lag of every share partition at regular moments.

        Parameters
        ----------
        group : str, optional
        every : timedelta, str or float, optional
            ``"5min"``, or seconds; else a sixtieth of the span that rates are of, or of that since
            ``since``, whichever is longer.
        since : str or datetime, optional
            The first moment; else as far back as `over`, and without ``every`` as rates look.
        """
        evidence = self.evidence(group)
        begin = parse_time(since) if isinstance(since, str) else since
        step = span(every) if every is not None else self._step()
        over = self.over if begin is None else None
        if every is None and begin is None:
            over = investigate.STEPS * step  # other groups' records may begin long before
        elif every is None and begin is not None:
            step = max(step, (evidence.as_of - begin) / investigate.STEPS)
        moments = investigate.regular_moments(self.reading, step, begin, over)
        # What is few is worked out once for all groups; of more each group has its own share
        # partitions.
        mine = None if self._are_few(moments) else group
        answer = self._ask(
            ("timeline", step, begin, mine),
            lambda: investigate.timeline_of(self.reading, moments, step, mine, MOST_TIMELINE_ROWS),
        )
        frame = self._frame(
            lambda read: investigate.timeline_frame(read, moments, step, group), answer.left_out
        )
        return _timeline_answer(
            answer, step, group, replace(self._base(), as_of=evidence.as_of, frame=frame)
        )

    def trends(self) -> pa.Table:
        """The lag of each group at the moments of `timeline`, as ``group_id as_of lag``.

        Null where the lag of one of its share partitions is not known; no row where it had none.
        """
        step = self._step()
        over = investigate.STEPS * step
        moments = investigate.regular_moments(self.reading, step, None, over)
        if self._are_few(moments):
            return investigate.lag_sums(self.timeline().table)
        return self._ask(
            ("trends", step), lambda: investigate.trends_of(self.reading, moments, step)
        )

    def _are_few(self, moments: Sequence[datetime]) -> bool:
        rows: int = len(moments) * self.evidence().lag.num_rows
        return rows <= MOST_TIMELINE_ROWS

    def events(self, group: str | None = None, since: str | datetime | None = None) -> Result:
        """What happened to share partitions: resets, new leaders, archived records, members.

        Parameters
        ----------
        group : str, optional
        since : str or datetime, optional
            A time; else as far back as `over`.
        """
        evidence = self.evidence(group)
        begin = parse_time(since) if isinstance(since, str) else since
        answer = self._ask(
            ("events", begin),
            lambda: investigate.events_of(self.reading, begin, self._step(), self.over),
        )
        base = replace(self._base(), as_of=evidence.as_of)
        return _events_answer(answer, self._step(), group, base)


def _timeline_answer(answer: Answer, every: timedelta, group: str | None, base: Result) -> Result:
    """The lag at regular moments."""
    table = only(answer.table, group)
    notes = []
    if answer.left_out:
        count = len(pc.unique(keys(table, SHARE_PARTITION)))
        most = counted(count, "share partition")
        notes.append(f"the {most} with the most lag; to_spark() has all")
    return replace(
        base,
        notes=(*base.notes, *notes),
        title=f"Lag every {duration(every / timedelta(milliseconds=1))}",
        table=table,
        columns=views.TIMELINE.columns,
        as_of=pc.max(table.column("as_of")).as_py(),
        order="as_of",
        charts={
            "lag": drawing(charts.lag_over_time_figure, charts.lag_over_time_records, table),
            "rates": drawing(charts.rates_over_time_figure, charts.rates_over_time_records, table),
        },
        unknown=gaps.of_ends(table) + gaps.of_rejected(answer.rejected, answer.generation),
        engine=answer.engine,
    )


def _events_answer(answer: Answer, every: timedelta, group: str | None, base: Result) -> Result:
    """What happened to share partitions and groups."""
    step = duration(every / timedelta(milliseconds=1))
    return replace(
        base,
        title="What happened",
        table=only(answer.table, group),
        columns=views.EVENTS.columns,
        order="happened_at",
        notes=(*base.notes, f"events of one kind within {step} are one row"),
        unknown=(
            (
                "when members that are gone by now joined, and those that left so long ago that "
                "Kafka has dropped the record of it"
            ),
            *gaps.of_rejected(answer.rejected, answer.generation),
        ),
        engine=answer.engine,
    )
