"""How a group came to be as it is: its past, and everything as of one of its moments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.workbench import Workbench

from ..run import Run
from .pieces import words_of
from .tried import TriedGroup

#: Ranges of the chart, in seconds; 0 is as far back as rates look.
RANGES = {"all": 0, "last hour": 3600, "last 15 min": 900, "last 5 min": 300, "last minute": 60}
RANGE_MOMENTS = 60
#: The past of a group that is shown: of which workbench, and how many seconds of it.
Past = tuple[Workbench, str, int]


class PastGroup(TriedGroup):
    """A dashboard of one group whose past is read after it, and which goes back to any moment.

    A subclass has a choice ``range`` and says whether reading takes a while (`_takes_a_while`), and
    whether there is so much that the group comes before all others (`_has_much`).
    """

    range: Any

    def _look_back(self) -> None:
        self._only_lag = False  # nothing else is known yet
        self._past: set[Past] = set()  # what was read
        self._past_run: Run | None = None
        self._then: Workbench | None = None  # as of the moment that is looked at, if not the last
        # the group at that moment, before all others are known
        self._alone: Workbench | None = None
        self._then_run: Run | None = None
        self.selection.observe(self._go_to, names=["moment"])

    def _takes_a_while(self) -> bool:
        raise NotImplementedError

    def _has_much(self) -> bool:
        raise NotImplementedError

    # ---- the past of the group -------------------------------------------------------------------

    def _knows_past(self, group: str) -> bool:
        """Whether the past can be shown now: it was read, or nobody looks on while it is."""
        return (self.bench, group, self.range.value) in self._past or not self._takes_a_while()

    def _read_past_soon(self) -> None:
        """Begin to read the past of the group; what is picked meanwhile is read after it."""
        if self._past_run is None:
            bench, group, _ = past = (self.bench, str(self.group), self.range.value)

            def read(*_: Any) -> None:
                self._prepare_group(bench, group)

            def show(run: Run, *_: Any) -> None:
                with self._lock:
                    if run is self._past_run:
                        self._past_run = None
                        self._past.add(past)
                        self.show()  # asks again what failed, and says why

            self._past_run = Run(read, lambda *_: None, show)
            self._past_run.start()

    def _timeline(self, group: str, bench: Workbench | None = None) -> pa.Table:
        """Return the lag of the group, with more moments in the range that was chosen."""
        bench = self.bench if bench is None else bench
        whole = bench.timeline(group).table
        if not self.range.value:
            return whole
        span = timedelta(seconds=self.range.value)
        begin = bench.evidence(group).as_of - span
        before = whole.filter(pc.less(whole.column("as_of"), begin))
        return pa.concat_tables([before, bench.timeline(group, span / RANGE_MOMENTS, begin).table])

    # ---- the moment that is looked at ------------------------------------------------------------

    @property
    def seen(self) -> Workbench:
        """The workbench as of the moment that is looked at; the window and the chart have all."""
        alone = self._alone
        is_here = alone is not None and self.group in alone.choice.groups
        return alone if is_here else self._then or self.bench  # type: ignore[return-value]

    def _mine(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pc.equal(rows.column("group_id"), str(self.group)))

    def _go_to(self, _: Any = None) -> None:
        """Show everything as of the moment that is picked; of many, the last one."""
        if self._only_lag or self._then_run is not None:
            return
        moment = self._moment()
        if moment == (None if self._then is None else self._then.as_of):
            return
        if moment is None:
            self._then = None
            self.show()
            return
        then = self.bench.at(moment)

        def read(*_: Any) -> None:
            alone = then.only(str(self.group))
            if self._has_much() and alone.groups:
                alone.explain()
                with self._lock:
                    if self._then_run is None or self._moment() != moment:
                        return  # somebody drags
                    self._then, self._alone = then, alone
                    self.show()
                    self._mark("sharelag-follows")
            then.overview()

        def show(run: Run, _: Any, error: BaseException | None) -> None:
            with self._lock:
                if run is not self._then_run:
                    return
                self._then_run = self._alone = None
                if error is not None:
                    self.header.failure = words_of(error)
                elif self._moment() == moment:
                    self._then = then
                    self.show()
                else:
                    self._go_to()
                self._mark("" if self._then_run is None else "sharelag-moves")

        self._mark("sharelag-moves")
        self._then_run = Run(read, lambda *_: None, show)
        self._then_run.start()

    def _mark(self, chosen: str) -> None:
        """Dim what is still of the moment before."""
        for name in ("sharelag-moves", "sharelag-follows"):
            (self.add_class if name == chosen else self.remove_class)(name)

    def _moment(self) -> Any:
        """Return the moment that is picked; None where that is the last one."""
        moment = self.selection.moment
        return None if moment is None or moment >= self.bench.evidence().as_of else moment

    def _in_range(self, records: pa.Table) -> pa.Table:
        """Return what is in the range that was chosen, with ages that earlier ends make known."""
        if not self.range.value:
            return records
        begin = self.bench.evidence(str(self.group)).as_of - timedelta(seconds=self.range.value)
        return records.filter(pc.greater_equal(records.column("as_of"), begin))

    def _prepare(self, bench: Workbench) -> None:
        bench.overview()
        if self.group in bench.groups:  # else what is shown says that it is gone
            past = (bench, str(self.group), self.range.value)
            self._prepare_group(bench, str(self.group))
            self._past.add(past)

    def _prepare_group(self, bench: Workbench, group: str) -> None:
        self._timeline(group, bench)
        bench.events(group)
        bench.moments(group)
        bench.trends()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until nothing is read or simulated any more; return whether that is so."""
        if self._run is not None and not self._run.join(timeout):
            return False
        while (run := self._reading()) is not None:
            if not run.join(timeout):
                return False
        return super().join(timeout)

    def _reading(self) -> Run | None:
        """Return what is being read; one that ends may begin the next before it lets go."""
        with self._lock:
            return self._past_run or self._then_run

    def close(self) -> None:
        """Let go of everything; the past that is being read is thrown away."""
        self._past_run = self._then_run = None
        if self.comm is not None:  # it is closed once more when it is collected
            self.selection.unobserve(self._go_to, names=["moment"])
        super().close()
