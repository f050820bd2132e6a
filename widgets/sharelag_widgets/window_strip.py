"""What does a share partition's window look like, offset by offset, now and back in time?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import traitlets

from sharelag.errors import InputError
from sharelag.model import DeliveryState

from .bundle import script, style
from .columns import Rows, pack, table_of
from .moments import Moments, moment_columns, moments_of
from .selection import SHARE_PARTITION, Key, Selection, keys_of, selection_for
from .view import View

#: What an offset can be beside Kafka's delivery states; the names that `counts` and the legend use.
OTHER_KINDS = ("unknown", "unread", "finished", "other", "window")
KINDS = tuple(state.name.lower() for state in DeliveryState) + OTHER_KINDS
_UNKNOWN, _UNREAD, _FINISHED, _OTHER, _WINDOW = range(len(DeliveryState), len(KINDS))


class WindowStrip(View):
    """Offsets of a share partition from start offset to end, by state, with every moment in the browser.

    All moments cross once, so going through time needs no kernel. Make one with `WindowStrip.of`.
    """

    _esm = script("window_strip.js")
    _css = style("window_strip.css")

    shown = traitlets.Int(0).tag(sync=True)  # which share partition
    moment = traitlets.Int(0).tag(sync=True)  # which of its moments
    cursor = traitlets.Float(None, allow_none=True).tag(sync=True)  # the offset that is looked at
    offsets = traitlets.List(traitlets.Float()).tag(sync=True)  # picked: first and last, or nothing
    fit = traitlets.Unicode("window").tag(sync=True)  # window, moments, log, or fixed
    span = traitlets.List(traitlets.Float()).tag(sync=True)  # where fixed: first offset and end

    _PICKS = ("shown", "moment", "offsets")

    def __init__(self, moments: Moments, rows: pa.Table, selection: Selection | None = None, **traits: Any) -> None:
        self._moments = moments
        self.rows = rows
        super().__init__(selection, **traits)
        self.data = pack(moment_columns(moments))
        if not moments.keys:
            self.data = b""
            self.note = (
                "There is no window to show: the table has no rows. Is the group's name right, and has it fetched?"
            )
            return
        with self._deaf():
            self.moment = int(moments.at[1]) - 1  # the last, which is now
        self._hear()

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        ends: Rows | None = None,
        keys: tuple[str, ...] = SHARE_PARTITION,
        labels: dict[Key, str] | None = None,
        selection: Selection | None = None,
        title: str = "Windows of share partitions",
    ) -> WindowStrip:
        """The windows in a table, one moment a row.

        Parameters
        ----------
        rows : table
            `sharelag.schemas.WINDOWS`, or `sharelag.schemas.HISTORY` (numbers without a place); Arrow, pandas, Spark or
            arrays. Rows of one share partition are its moments, by ``as_of``, ``record_timestamp`` or
            ``write_timestamp``, whichever the table has first.
        ends : table, optional
            Where ``rows`` has no ``end_offset``: `sharelag.schemas.LAG` or any other table with that column, a row a
            share partition, to show what is unread at its last moment.
        keys : tuple of str
            The columns that name a share partition.
        labels : dict of key to str, optional
        selection : Selection, optional
        title : str

        Raises
        ------
        InputError
            A column is missing.
        """
        table = table_of(rows)
        known = {} if ends is None else _ends(ends, keys)
        return cls(moments_of(table, keys, labels or {}, known), table, selection_for(selection, keys), title=title)

    def counts(self, moment: int | None = None) -> dict[str, int]:
        """How many offsets of each kind there are at a moment of the share partition that is shown.

        Parameters
        ----------
        moment : int, optional
            Else the one shown.

        Returns
        -------
        dict of str to int
            Kinds that there are none of are left out; nothing at all before the start offset is known.
        """
        row = self._row(moment)
        start, head, window_end, end = (
            self._moments.numbers[name][row] for name in ("start", "head", "window_end", "end")
        )
        if np.isnan(start):
            return {}
        numbers = np.zeros(len(KINDS), np.int64)
        runs = self._moments.runs[self._moments.runs_at[row] : self._moments.runs_at[row + 1]]
        states = np.where(runs[:, 2] < len(DeliveryState), runs[:, 2], _OTHER)
        np.add.at(numbers, states, runs[:, 1] + 1 - runs[:, 0])
        rest = int(max(window_end - head, 0)) - int(numbers.sum())
        numbers[_UNKNOWN if self._moments.itemised else _WINDOW] = max(rest, 0)
        numbers[_FINISHED] = head - start
        if not np.isnan(end):
            numbers[_UNREAD] = max(end - max(window_end, start), 0)
        return {name: int(count) for name, count in zip(KINDS, numbers, strict=True) if count}

    @property
    def time(self) -> datetime | None:
        """The moment that is shown; None where the table does not say."""
        if not self._moments.keys:
            return None
        return _datetime(self._moments.numbers["time"][self._row(None)])

    def summary(self) -> str:
        """What is shown, in a sentence."""
        if not self._moments.keys:
            return self.note
        row = self._row(None)
        start, end = self._moments.numbers["start"][row], self._moments.numbers["window_end"][row]
        if np.isnan(start):
            return f"{self._moments.labels[self.shown]}: the start offset is not known yet"
        kinds = ", ".join(f"{name} {count:,}" for name, count in self.counts().items())
        when = f" as of {self.time.isoformat()}" if self.time else ""
        return f"{self._moments.labels[self.shown]}: window {start:,.0f} to {end:,.0f}{when}: {kinds or 'empty'}"

    def _row(self, moment: int | None) -> int:
        first, end = self._moments.at[self.shown : self.shown + 2]
        at = int(first) + (self.moment if moment is None else moment)
        if not first <= at < end:
            raise InputError(f"there is no moment {at - first}: this share partition has {end - first}, from 0")
        return at

    def _picked(self, trait: str) -> dict[str, Any]:
        if trait == "moment":
            return {"moment": self.time}
        offsets = (int(self.offsets[0]), int(self.offsets[1])) if self.offsets else None
        return {"keys": (self._moments.keys[self.shown],), "offsets": offsets}

    def _show(self, selection: Selection) -> None:
        if not self._moments.keys:
            return
        wanted = next((key for key in selection.keys if key in self._moments.keys), None)
        if wanted is not None and self._moments.keys[self.shown] != wanted:
            self.shown = self._moments.keys.index(wanted)
            self.moment = int(self._moments.at[self.shown + 1] - self._moments.at[self.shown]) - 1
        if selection.moment is not None:
            first, end = self._moments.at[self.shown : self.shown + 2]
            times = self._moments.numbers["time"][first:end]
            before = np.searchsorted(times, selection.moment.timestamp() * 1000 + 0.5) - 1
            self.moment = max(int(before), 0)
        self.offsets = [float(offset) for offset in selection.offsets or ()]


def _ends(ends: Rows, keys: tuple[str, ...]) -> dict[Key, int]:
    table = table_of(ends)
    if "end_offset" not in table.schema.names:
        raise InputError("ends has no column end_offset: give a lag table, or offsets with the columns of the key")
    known = zip(keys_of(table, keys), table.column("end_offset").to_pylist(), strict=True)
    return {key: end for key, end in known if end is not None}


def _datetime(milliseconds: float) -> datetime | None:
    return None if np.isnan(milliseconds) else datetime.fromtimestamp(milliseconds / 1000, UTC)
