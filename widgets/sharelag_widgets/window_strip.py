"""A share partition's window, offset by offset, at every moment.

A moment is one row: start and end of the window, and its runs, if the table has them, like
`sharelag.schemas.WINDOWS`. `sharelag.schemas.HISTORY` has only counts, which are shown without
positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import traitlets
from numpy.typing import NDArray

from sharelag.charts import palette
from sharelag.errors import InputError
from sharelag.model import DeliveryState
from sharelag.tables import words

from . import still
from .bundle import script, style
from .columns import LARGEST, Column, Rows, floats, pack, smallest, table_of
from .view import SHARE_PARTITION, Key, Selection, View, isolate, key_text, keys_of, selection_for

#: Columns with the moment of a row; the first that the table has is used.
_TIMES = ("as_of", "record_timestamp", "write_timestamp")
_NEEDED = ("start_offset", "window_end_offset")
#: Numeric columns of a moment.
_NUMBERS = {
    "start": "start_offset",
    "head": "effective_start_offset",
    "window_end": "window_end_offset",
    "end": "end_offset",
    "available": "window_available",
    "complete": "window_complete",
}
_RUN_FIELDS = ("first_offset", "last_offset", "delivery_state", "delivery_count")


class End(NamedTuple):
    """The log end of a share partition, and its time in milliseconds; NaN: unknown."""

    offset: float
    time: float


_NO_END = End(np.nan, np.nan)


class Moments(NamedTuple):
    """Windows by share partition and time.

    ``at`` has the first row of each share partition; ``times`` are milliseconds; ``runs_at`` has
    the first run of each row, and ``runs`` first offset, last offset, delivery state and delivery
    count.
    """

    keys: tuple[Key, ...]
    labels: tuple[str, ...]
    at: NDArray[np.int64]
    numbers: dict[str, NDArray[np.float64]]  # a value per row, NaN: unknown
    itemised: bool
    runs_at: NDArray[np.int64]
    runs: NDArray[np.int64]  # runs x 4
    left_out: int  # rows with offsets beyond `LARGEST`

    def runs_of(self, row: int) -> NDArray[np.int64]:
        """Return the runs of a row."""
        return self.runs[self.runs_at[row] : self.runs_at[row + 1]]


def moments_of(
    rows: pa.Table, keys: tuple[str, ...], labels: Mapping[Key, str], ends: Mapping[Key, End]
) -> Moments:
    """Return the moments in a table, sorted by time within share partitions.

    Rows are `sharelag.schemas.WINDOWS` or `HISTORY`, optionally with ``end_offset`` and ``topic``.
    A share partition, the values of ``keys``, is named by its label, else by topic (or topic id),
    partition and group. ``ends`` are for tables without them: one with a time after its share
    partition's last record becomes a separate moment; otherwise it belongs to the last moment.
    """
    if missing := [name for name in _NEEDED if name not in rows.schema.names]:
        raise InputError(
            f"the table has no column {', '.join(missing)}: give windows or a history, as "
            "sharelag.windows and sharelag.history return them"
        )
    is_far = np.any([numbers_of(rows, name) > LARGEST for name in _NUMBERS.values()], axis=0)
    rows = rows.filter(pa.array(~is_far)) if is_far.any() else rows
    by_row = keys_of(rows, keys)
    time = next((name for name in _TIMES if name in rows.schema.names), None)
    times = numbers_of(rows, time)
    chosen = tuple(dict.fromkeys(by_row))
    place = {key: n for n, key in enumerate(chosen)}
    codes = np.array([place[key] for key in by_row], np.int64)
    order = np.lexsort((times, codes))
    known_ends = [ends.get(key, _NO_END) for key in chosen]
    lacking = np.isnan(numbers_of(rows, "end_offset"))[order]
    order, now = _with_now(order, codes[order], np.where(lacking, times[order], np.inf), known_ends)
    times = np.where(now, [known_ends[code].time for code in codes[order]], times[order])
    rows = rows.take(pa.array(order))
    itemised = "runs" in rows.schema.names and pa.types.is_list(rows.schema.field("runs").type)
    runs_at, runs = (
        _runs(rows) if itemised else (np.zeros(len(rows) + 1, np.int64), np.zeros((0, 4), np.int64))
    )
    numbers = {ours: numbers_of(rows, theirs) for ours, theirs in _NUMBERS.items()}
    numbers["time"] = times
    numbers["head"] = np.where(np.isnan(numbers["head"]), numbers["start"], numbers["head"])
    at = np.searchsorted(codes[order], np.arange(len(chosen) + 1))
    about = {"topic", "topic_id", "partition", "group_id"} & {*rows.schema.names} | {*keys}
    first = rows.select(sorted(about)).take(pa.array(at[:-1])).to_pylist()
    words = tuple(labels.get(key, _label(row, key)) for key, row in zip(chosen, first, strict=True))
    last = at[1:] - 1
    offsets = np.array([end.offset for end in known_ends], np.float64)
    numbers["end"][last] = np.where(np.isnan(numbers["end"][last]), offsets, numbers["end"][last])
    return Moments(chosen, words, at, numbers, itemised, runs_at, runs, int(is_far.sum()))


def _with_now(
    order: NDArray[np.int64],
    codes: NDArray[np.int64],
    times: NDArray[np.float64],
    ends: Sequence[End],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Repeat the last row of each share partition whose log end has a later time."""
    last = np.searchsorted(codes, np.arange(len(ends)), side="right") - 1
    later = last[np.array([end.time for end in ends], np.float64) > times[last]]
    place = later + 1
    return np.insert(order, place, order[later]), np.insert(np.zeros(len(order), bool), place, True)


def moment_columns(moments: Moments) -> dict[str, Column]:
    """Return moments as columns for the browser; runs are relative to their start offset."""
    start = np.nan_to_num(moments.numbers["start"]).astype(np.int64)
    of_run = np.repeat(np.arange(len(start)), np.diff(moments.runs_at))
    first, last, state, count = moments.runs.T
    numbers = {
        name: Column(values, "time" if name == "time" else "number")
        for name, values in moments.numbers.items()
    }
    return numbers | {
        "key": Column(
            np.arange(len(moments.keys), dtype=np.int32), "text", tuple(map(key_text, moments.keys))
        ),
        "label": Column(np.arange(len(moments.keys), dtype=np.int32), "text", moments.labels),
        "at": Column(moments.at.astype(np.uint32)),
        "runs_at": Column(moments.runs_at.astype(np.uint32)),
        "run_first": Column(smallest(first - start[of_run])),
        "run_length": Column(smallest(last + 1 - first)),
        "run_state": Column(np.clip(state, 0, 255).astype(np.uint8)),
        "run_count": Column(np.clip(count, 0, 65535).astype(np.uint16)),
        "itemised": Column(np.array([moments.itemised], np.uint8)),
    }


def numbers_of(rows: pa.Table, name: str | None) -> NDArray[np.float64]:
    """Return a column as numbers, times as milliseconds; NaN if null or missing."""
    if name is None or name not in rows.schema.names:
        return np.full(len(rows), np.nan)
    return np.array(floats(rows.column(name)))


def _runs(rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first run of each row, and all runs, which the table has to clip itself."""
    column = rows.column("runs").combine_chunks()
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    flat = pc.list_flatten(column)
    fields = [
        pc.struct_field(flat, [name]).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in _RUN_FIELDS
    ]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), np.stack(fields, axis=1)


def _label(row: dict[str, Any], key: Key) -> str:
    topic = row.get("topic") or row.get("topic_id")
    if topic is None or row.get("partition") is None:
        return " / ".join(map(str, key))
    group = f" in {isolate(row['group_id'])}" if row.get("group_id") else ""
    return f"{isolate(topic)}-{row['partition']}{group}"


#: Kinds of offsets beyond Kafka's delivery states, by their names in `counts` and the legend.
OTHER_KINDS = ("unknown", "unread", "finished", "other", "window")
KINDS = tuple(state.name.lower() for state in DeliveryState) + OTHER_KINDS
_TOO_FAR = (
    "rows have offsets beyond 2^53, which a browser cannot draw exactly: print the result, or "
    "use a command"
)
_EMPTY = (
    "There is no window to show: the table has no rows. Is the group's name right, and "
    "has it fetched?"
)
_UNKNOWN, _UNREAD, _FINISHED, _OTHER, _WINDOW = range(len(DeliveryState), len(KINDS))
#: Steps of offsets in a static picture, about its width in pixels.
_STEPS = 670


class WindowStrip(View):
    """Offsets of a share partition from start offset to end, by state, at every moment.

    The browser gets all moments at once, so moving through time needs no kernel. Make one with
    `WindowStrip.of`.
    """

    _esm = script("window_strip.js")
    _css = style("window_strip.css")

    shown = traitlets.Int(0).tag(sync=True)  # index of the share partition
    moment = traitlets.Int(0).tag(sync=True)  # index of its moment
    cursor = traitlets.Float(None, allow_none=True).tag(sync=True)  # offset of the cursor
    offsets = traitlets.List(traitlets.Float()).tag(sync=True)  # picked: first and last, or empty
    fit = traitlets.Unicode("window").tag(sync=True)  # window, moments, log, or fixed
    span = traitlets.List(traitlets.Float()).tag(sync=True)  # if fixed: first offset and end
    # delivery limit of all share partitions; None: unknown
    limit = traitlets.Int(None, allow_none=True, min=1).tag(sync=True)
    speed = traitlets.Enum((1, 2, 5, 10), 1).tag(sync=True)  # of playback

    _PICKS = ("shown", "moment", "offsets")

    def __init__(
        self,
        rows: pa.Table,
        keys: tuple[str, ...],
        labels: Mapping[Key, str],
        ends: Rows | None,
        selection: Selection | None = None,
        **traits: Any,
    ) -> None:
        self._key_columns, self._labels = keys, labels
        self._take(rows, ends)
        super().__init__(selection, **traits)
        self._publish()
        with self._deaf():
            self.moment = self._last()
        if self._moments.keys:
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
        limit: int | None = None,
    ) -> WindowStrip:
        """Return a strip of the windows in a table, one moment per row.

        Parameters
        ----------
        rows : table
            `sharelag.schemas.WINDOWS`, or `sharelag.schemas.HISTORY` (numbers without a place);
            Arrow, pandas, Spark or arrays. Rows of one share partition are its moments, by
            ``as_of``, ``record_timestamp`` or ``write_timestamp``, whichever the table has first.
        ends : table, optional
            If ``rows`` has no ``end_offset``: `sharelag.schemas.LAG` or any other table with that
            column, one row per share partition, to show unread offsets. Ends with a time
            (``as_of``) after a share partition's last record become a separate moment with the
            window of that record; otherwise they belong to the last moment.
        keys : tuple of str
            The columns that identify a share partition.
        labels : dict of key to str, optional
        selection : Selection, optional
        title : str
        limit : int, optional
            ``share.delivery.count.limit`` of the groups, to mark offsets whose next delivery is the
            last.

        Raises
        ------
        InputError
            A column is missing.
        """
        chosen = selection_for(selection, keys)
        return cls(table_of(rows), keys, labels or {}, ends, chosen, title=title, limit=limit)

    @property
    def rows(self) -> pa.Table:
        """The given table of moments; set it to show others, see `fill`."""
        return self._rows

    @rows.setter
    def rows(self, rows: Rows) -> None:
        self.fill(rows, self._ends)

    @property
    def shown_key(self) -> Key | None:
        """The key of the share partition shown; None without any."""
        keys = self._moments.keys
        return keys[min(self.shown, len(keys) - 1)] if keys else None

    @property
    def ends(self) -> Rows | None:
        """The given table of log ends; set it to show others, see `fill`."""
        return self._ends

    @ends.setter
    def ends(self, ends: Rows | None) -> None:
        self.fill(self._rows, ends)

    def fill(self, rows: Rows, ends: Rows | None = None) -> None:
        """Show other moments, such as those of a refresh, and keep the view.

        Share partition, zoom, cursor and time stay; if the last moment is shown but not picked, the
        new last one follows. Nothing stays of share partitions that are gone.

        Parameters
        ----------
        rows, ends : table
            As for `of`.

        Raises
        ------
        InputError
            A column is missing; nothing changes then.
        """
        key = self._moments.keys[self.shown] if self._moments.keys else None
        time, was_last = self.time, self.moment == self._last() and self._selection.moment is None
        self._take(table_of(rows), ends)
        with self._deaf(), self.hold_sync():
            stays = key in self._moments.keys
            self.shown = self._moments.keys.index(key) if stays else 0
            if not stays:
                self.cursor, self.fit, self.span = None, "window", []
            again = time if stays and not was_last else None
            self.moment = self._last() if again is None else self._until(again)
            self._publish()
            self._show(self._selection)

    def counts(self, moment: int | None = None) -> dict[str, int]:
        """Count the offsets of each kind at a moment of the share partition shown.

        Parameters
        ----------
        moment : int, optional
            Default: the one shown.

        Returns
        -------
        dict of str to int
            Without kinds of count 0; empty before the start offset is known.
        """
        row = self._row(moment)
        start, head, window_end, end = (
            self._moments.numbers[name][row] for name in ("start", "head", "window_end", "end")
        )
        if np.isnan(start):
            return {}
        numbers = np.zeros(len(KINDS), np.int64)
        runs = self._moments.runs_of(row)
        np.add.at(numbers, _states_of(runs), runs[:, 1] + 1 - runs[:, 0])
        rest = int(max(window_end - head, 0)) - int(numbers.sum())
        numbers[_UNKNOWN if self._moments.itemised else _WINDOW] = max(rest, 0)
        numbers[_FINISHED] = head - start
        if not np.isnan(end):
            numbers[_UNREAD] = max(end - max(window_end, start), 0)
        return {name: int(count) for name, count in zip(KINDS, numbers, strict=True) if count}

    def last_deliveries(self, moment: int | None = None) -> int | None:
        """Count the offsets whose next delivery is their last; None: unknown.

        Parameters
        ----------
        moment : int, optional
            Default: the one shown.
        """
        if self.limit is None or not self._moments.itemised:
            return None
        row = self._row(moment)
        first, last, state, count = self._moments.runs_of(row).T
        marked = (state == DeliveryState.AVAILABLE) & (count >= self.limit - 1)
        return int((last + 1 - first)[marked].sum())

    @property
    def time(self) -> datetime | None:
        """The moment shown; None if the table has no times."""
        if not self._moments.keys:
            return None
        return _datetime(self._moments.numbers["time"][self._row(None)])

    def summary(self) -> str:
        """Return a summary of the window in a sentence."""
        if not self._moments.keys:
            return self.note
        row = self._row(None)
        start, end = self._moments.numbers["start"][row], self._moments.numbers["window_end"][row]
        if np.isnan(start):
            return f"{self._moments.labels[self.shown]}: the start offset is not known yet"
        kinds = ", ".join(f"{name} {count:,}" for name, count in self.counts().items())
        last = self.last_deliveries()
        marked = f"; the next delivery is the last of {last:,}" if last else ""
        when = f" as of {words.moment(self.time)}" if self.time else ""
        return (
            f"{self._moments.labels[self.shown]}: window {start:.0f} to {end:.0f}{when}: "
            f"{kinds or 'empty'}{marked}"
        )

    def still(self, title: str = "") -> str:
        """Return the window at the moment shown as HTML: a picture with text."""
        return still.picture(title, still.drawing(self._figure()), self.summary())

    def _figure(self) -> dict[str, Any]:
        """Return one bar of the offsets at the moment shown, coloured by kind.

        It covers the window and a little more, in visible steps.
        """
        row = self._row(None) if self._moments.keys else None
        if row is None or np.isnan(self._moments.numbers["start"][row]):
            return {}
        start, window_end, end = (
            self._moments.numbers[name][row] for name in ("start", "window_end", "end")
        )
        # Only some of the unread offsets, which often far outnumber the window.
        beyond = np.nanmax([window_end, np.nanmin([end, 1.1 * window_end - 0.1 * start + 1])])
        offsets = np.unique(np.linspace(start, beyond, _STEPS, endpoint=False).round())
        kinds = self._kinds_at(row, offsets)
        first = offsets[np.flatnonzero(np.diff(kinds, prepend=-1))]
        wide = np.diff(first, append=beyond)
        kind = kinds[np.searchsorted(offsets, first)]
        series = [
            {
                "type": "bar",
                "orientation": "h",
                "name": palette.KINDS[name].words,
                "x": wide[kind == number].tolist(),
                "base": first[kind == number].tolist(),
                "y": [0] * int((kind == number).sum()),
                "marker": {"color": palette.KINDS[name].fill["light"]},
            }
            for number, name in enumerate(KINDS)
            if number in kind
        ]
        across = {"range": [start, beyond], "separatethousands": False}
        up = {"range": [-0.5, 0.5], "tickvals": [0], "ticktext": ["offsets"]}
        return {"data": series, "layout": {"height": 110, "xaxis": across, "yaxis": up}}

    def _kinds_at(self, row: int, offsets: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the kinds of offsets from the start offset on, as numbers of `KINDS`."""
        head, window_end = (self._moments.numbers[name][row] for name in ("head", "window_end"))
        inside = _UNKNOWN if self._moments.itemised else _WINDOW
        kinds = np.select([offsets < head, offsets < window_end], [_FINISHED, inside], _UNREAD)
        runs = self._moments.runs_of(row)
        at = np.searchsorted(runs[:, 0], offsets, "right") - 1
        is_in_run = (at >= 0) & (offsets <= runs[at, 1]) if len(runs) else at >= 0
        kinds[is_in_run] = _states_of(runs)[at[is_in_run]]
        return kinds

    def _take(self, rows: pa.Table, ends: Rows | None) -> None:
        known = {} if ends is None else _ends(ends, self._key_columns)
        self._moments = moments_of(rows, self._key_columns, self._labels, known)
        self._rows, self._ends = rows, ends

    def _publish(self) -> None:
        there = bool(self._moments.keys)
        self.data = pack(moment_columns(self._moments)) if there else b""
        left_out = self._moments.left_out
        far = f"{left_out:,} of {len(self._rows):,} {_TOO_FAR}" if left_out else ""
        self.note = far or ("" if there else _EMPTY)

    def _last(self) -> int:
        at = self._moments.at[self.shown : self.shown + 2]
        return int(at[1] - at[0]) - 1 if self._moments.keys else 0

    def _until(self, time: datetime) -> int:
        """Return its last moment up to a time, or the first if all are later."""
        first, end = self._moments.at[self.shown : self.shown + 2]
        times = self._moments.numbers["time"][first:end]
        return max(int(np.searchsorted(times, time.timestamp() * 1000 + 0.5)) - 1, 0)

    def _row(self, moment: int | None) -> int:
        first, end = self._moments.at[self.shown : self.shown + 2]
        at = int(first) + (self.moment if moment is None else moment)
        if not first <= at < end:
            raise InputError(
                f"there is no moment {at - first}: this share partition has {end - first}, from 0"
            )
        return at

    def _picked(self, trait: str) -> dict[str, Any]:
        if trait == "moment":
            return {"moment": self.time}
        offsets = (int(self.offsets[0]), int(self.offsets[1])) if self.offsets else None
        return {"keys": (self._moments.keys[self.shown],), "offsets": offsets}

    def _show(self, selection: Selection) -> None:
        if not self._moments.keys:
            return
        moment = next((key for key in selection.keys if key in self._moments.keys), None)
        offsets = [float(offset) for offset in selection.offsets or ()]
        is_other = moment is not None and self._moments.keys[self.shown] != moment
        if is_other:
            self.shown = self._moments.keys.index(moment)
            self.moment = self._last()
            self.cursor = None  # an offset of the previous share partition
        if selection.moment is not None:
            self.moment = self._until(selection.moment)
        is_away = bool(offsets != self.offsets and self.span and offsets)
        is_away = is_away and not (offsets[0] < self.span[1] and self.span[0] <= offsets[1])
        if self.fit == "fixed" and (is_other or is_away):
            self.fit, self.span = "window", []
        self.offsets = offsets


def _states_of(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the kind of each run; unknown states have their own kind."""
    return np.where(runs[:, 2] < len(DeliveryState), runs[:, 2], _OTHER)


def _ends(ends: Rows, keys: tuple[str, ...]) -> dict[Key, End]:
    table = table_of(ends)
    if "end_offset" not in table.schema.names:
        raise InputError(
            "ends has no column end_offset: give a lag table, or offsets with the columns of "
            "the key"
        )
    times = numbers_of(table, "as_of")
    known = zip(
        keys_of(table, keys), table.column("end_offset").to_pylist(), times.tolist(), strict=True
    )
    return {key: End(offset, time) for key, offset, time in known if offset is not None}


def _datetime(milliseconds: float) -> datetime | None:
    return None if np.isnan(milliseconds) else datetime.fromtimestamp(milliseconds / 1000, UTC)
