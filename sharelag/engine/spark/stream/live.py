"""Windows and lag of now, as people and programs see them while a stream keeps them current."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine.spark.stream.kept import Kept
from sharelag.tables import render, views
from sharelag.tables.displayable import Displayable
from sharelag.tables.gaps import of_lag
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import counted, moment


class Live(Kept, Displayable):
    """Windows and lag of a cluster as they are now. Made by `sharelag.stream.watch`."""

    @property
    def lag(self) -> pa.Table:
        """`sharelag.schemas.LAG` at the last sample of end offsets, whose time is in ``as_of``."""
        return self._lag

    @property
    def windows(self) -> pa.Table:
        """`sharelag.schemas.WINDOWS` that this lag is of."""
        return self._windows

    @property
    def stale(self) -> str | None:
        """Why the lag is no longer current: what failed, or that the stream has ended.

        None while it is current, and again as soon as lag can be computed again, such as when
        brokers that were away answer.
        """
        if self._failure is not None:
            return str(self._failure)
        return "it was stopped" if self._stopped.is_set() else self._why

    def updates(self, seconds: float | None = None) -> Iterator[pa.Table]:
        """Yield the lag as it is, and then each time that it has moved or that `stale` has changed.

        Parameters
        ----------
        seconds : float, optional
            For how long; without it, until `stop`.

        Yields
        ------
        pyarrow.Table
            `lag`. Should it move faster than it is taken, what lies between is left out. While it
            is not current it is yielded as it was, once for each reason.

        Raises
        ------
        ClusterError
            When the stream has ended by itself, which it does not because brokers are away.
        """
        until = None if seconds is None else time.monotonic() + seconds
        seen, number = None, 0
        while (number := self.wait(number, until)) and not self._stopped.is_set():
            with self._changed:
                lag, why = self._lag, self._why
            now = lag.drop_columns("as_of"), why
            if now != seen:
                seen = now
                yield lag

    def check(self) -> None:
        """Make sure that the stream goes on; raise what ended it."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End the stream; the last tables stay."""
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return render.as_text(self.presented())

    def presented(self) -> Presentation:
        """Return the lag as it is, and whether it is still current."""
        lag, stale = self._lag, self.stale
        return Presentation(
            title=f"Lag of {counted(len(lag), 'share partition')}, live",
            when=f"as of {moment(pc.max(lag.column('as_of')).as_py())}",
            table=lag,
            columns=views.LAG.columns,
            source=f"{self._source.describe()}, spark engine",
            unknown=of_lag(lag),
            notes=(f"no longer current: {stale}",) if stale else (),
            order="lag",
        )

    def wait(self, number: int = 0, until: float | None = None) -> int:
        """Wait for a newer lag or until a monotonic time; return the new number, or 0.

        ``number`` is that of the lag that is known: what the last call returned. It raises what
        ended the stream.
        """
        with self._changed:
            seconds = None if until is None else max(until - time.monotonic(), 0.0)
            self._changed.wait_for(
                lambda: self._number > number or self._failure or self._stopped.is_set(), seconds
            )
            self.check()
            return self._number if self._number > number else 0
