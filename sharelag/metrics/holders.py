"""Who holds the offsets that are not finished, where a broker's log of requests covers the moment.

The state topic has neither acquired records nor members. A log of requests has both, so what is
unknown there is *acquired by a member since a time*, or *never delivered*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.columns import numbers
from sharelag.replay.holds import held_at
from sharelag.schemas import LAG, Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.schemas.requests import HOLDERS, INSTANT
from sharelag.tables.words import moment as time_words

ACQUIRED, NEVER_DELIVERED = "acquired", "never delivered"
#: Runs of one share partition that notes name; of more they say how many.
_NAMED = 3
_SHARE_PARTITION = ["group_id", "topic_id", "partition"]


def holders_arrow(
    lag: Arrow,
    windows: Arrow,
    tables: Mapping[str, Arrow],
    holds: pa.Table,
    moment: int,
) -> pa.Table:
    """Return who holds the offsets of share partitions, and which were never delivered.

    Parameters
    ----------
    lag, windows : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG` and `WINDOWS` as of the moment.
    tables : mapping of str to pyarrow.Table
        `sharelag.schemas.requests.REQUEST_TABLES` by name.
    holds : pyarrow.Table
        `sharelag.schemas.requests.HOLDS`.
    moment : int
        In microseconds since 1970, which the log has to cover.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.requests.HOLDERS`, sorted. Offsets are called never delivered only where
        the log has all of the share partition, from its initialization on.
    """
    rows = as_table(lag)
    chosen = keys(rows, _SHARE_PARTITION)
    mine = pc.is_in(keys(holds, _SHARE_PARTITION), chosen)
    held = held_at(holds.filter(mine), moment)
    acquired = held.select([*_SHARE_PARTITION, "first_offset", "last_offset"])
    acquired = acquired.append_column("lock_state", pa.repeat(pa.scalar(ACQUIRED), held.num_rows))
    for name in ("member_id", "since", "locked_until", "delivery_count"):
        acquired = acquired.append_column(name, held.column(name))
    free = _never_delivered(rows, as_table(windows), tables, moment)
    both = pa.concat_tables([acquired.cast(HOLDERS), free])
    return both.sort_by([(name, "ascending") for name in (*_SHARE_PARTITION, "first_offset")])


def _never_delivered(
    lag: pa.Table, windows: pa.Table, tables: Mapping[str, Arrow], moment: int
) -> pa.Table:
    """Return the unfinished offsets up to the end that nobody acquired up to then."""
    at = pa.scalar(moment).cast(INSTANT)
    calls, acquired = as_table(tables["state_calls"]), as_table(tables["acquisitions"])
    begun = calls.filter(
        pc.and_(
            pc.and_(pc.equal(calls.column("call"), "initialize"), pc.equal(calls["error_code"], 0)),
            pc.less_equal(calls.column("timestamp"), at),
        ).fill_null(False)
    )
    start, has_start = numbers(lag, "effective_start_offset")
    end, has_end = numbers(lag, "end_offset")
    whole = pc.is_in(keys(lag, _SHARE_PARTITION), keys(begun, _SHARE_PARTITION))
    whole = np.asarray(whole.to_numpy(zero_copy_only=False), bool)
    chosen = np.flatnonzero(whole & has_start & has_end & (end > start))
    places = keys(lag, _SHARE_PARTITION).take(pa.array(chosen))
    acquired = acquired.filter(pc.less_equal(acquired.column("timestamp"), at))
    runs = flat(windows.column("runs"))
    of_window, states = pc.list_parent_indices(runs), pc.list_flatten(runs)
    known = [
        (
            keys(acquired, _SHARE_PARTITION),
            acquired.column("first_offset"),
            acquired["last_offset"],
        ),
        (
            keys(windows, _SHARE_PARTITION).take(of_window),
            pc.struct_field(states, "first_offset"),
            pc.struct_field(states, "last_offset"),
        ),
    ]
    place = np.concatenate([_index(names, places) for names, _, _ in known])
    first = np.concatenate([_numbers(begin) for _, begin, _ in known])
    after = np.concatenate([_numbers(last) for _, _, last in known]) + 1
    mine = place >= 0
    of, begin, stop = _between(place[mine], first[mine], after[mine], start[chosen], end[chosen])
    names = lag.select(_SHARE_PARTITION).take(pa.array(chosen[of]))
    columns: dict[str, Any] = {name: names.column(name) for name in _SHARE_PARTITION}
    columns |= {"first_offset": pa.array(begin), "last_offset": pa.array(stop - 1)}
    columns["lock_state"] = pa.repeat(pa.scalar(NEVER_DELIVERED), len(of))
    empty = {field.name: pa.nulls(len(of), field.type) for field in HOLDERS}
    return pa.table([(empty | columns)[name] for name in HOLDERS.names], schema=HOLDERS)


_Ints = NDArray[np.int64]


def _between(
    place: _Ints, first: _Ints, after: _Ints, start: _Ints, end: _Ints
) -> tuple[_Ints, _Ints, _Ints]:
    """Return what is between ranges, from the start to the end of each place."""
    count = len(start)
    number = np.arange(count)
    # A range of no length at both ends, so that there is something to be between.
    places = np.concatenate([place, number, number])
    begins = np.concatenate([first, start, end])
    stops = np.concatenate([after, start, end])
    begins = np.clip(begins, start[places], end[places])
    stops = np.clip(stops, start[places], end[places])
    order = np.lexsort((stops, begins, places))
    places, begins, stops = places[order], begins[order], stops[order]
    ranks, rank = np.unique(stops, return_inverse=True)
    step = len(ranks) + 1
    reached = ranks[np.maximum.accumulate(rank + places * step) - places * step] if count else stops
    is_gap = (places[1:] == places[:-1]) & (begins[1:] > reached[:-1])
    return places[1:][is_gap], reached[:-1][is_gap], begins[1:][is_gap]


def holder_notes(lag: Arrow, holders: pa.Table) -> list[list[str]]:
    """Return for each row of lag who holds its offsets, and how many were never delivered."""
    found: dict[tuple[Any, ...], list[str]] = {}
    more: dict[tuple[Any, ...], int] = {}
    never: dict[tuple[Any, ...], int] = {}
    for row in holders.to_pylist():
        key = tuple(row[name] for name in _SHARE_PARTITION)
        if row["lock_state"] == NEVER_DELIVERED:
            never[key] = never.get(key, 0) + row["last_offset"] - row["first_offset"] + 1
        elif len(found.setdefault(key, [])) < _NAMED:
            found[key].append(holder_words(row))
        else:
            more[key] = more.get(key, 0) + 1
    rows = lag.select(_SHARE_PARTITION).to_pylist()
    said = []
    for row in rows:
        key = tuple(row.values())
        words = list(found.get(key, ()))
        words += [f"and {more[key]} runs more"] if key in more else []
        words += [f"{never[key]} never delivered"] if key in never else []
        said.append(words)
    return said


def holder_words(row: Mapping[str, Any]) -> str:
    """Return ``100-109 acquired by member M since 2026-11-23 07:00:01Z``."""
    first, last = row["first_offset"], row["last_offset"]
    which = f"{first}" if first == last else f"{first}-{last}"
    return f"{which} acquired by {row['member_id']} since {time_words(row['since'])}"


def held_by(holders: pa.Table) -> dict[tuple[Any, ...], str]:
    """Return who holds offsets of each share partition, in one text."""
    acquired = holders.filter(pc.equal(holders.column("lock_state"), ACQUIRED))
    places = acquired.select(_SHARE_PARTITION).group_by(_SHARE_PARTITION).aggregate([])
    notes = holder_notes(places, acquired)
    rows = places.select(_SHARE_PARTITION).to_pylist()
    return {tuple(row.values()): "; ".join(said) for row, said in zip(rows, notes, strict=True)}


def held_runs(holders: pa.Table) -> dict[tuple[Any, ...], list[tuple[int, int, int]]]:
    """Return the first and last offset and the delivery count of what is acquired."""
    acquired = holders.filter(pc.equal(holders.column("lock_state"), ACQUIRED))
    found: dict[tuple[Any, ...], list[tuple[int, int, int]]] = {}
    for row in acquired.to_pylist():
        key = tuple(row[name] for name in _SHARE_PARTITION)
        run = (row["first_offset"], row["last_offset"], row["delivery_count"])
        found.setdefault(key, []).append(run)
    return found


def holder_lines(lag: Arrow, holders: pa.Table) -> list[str]:
    """Return ``orders:0: 680-699 acquired by member M since ...``, a line a share partition."""
    places = lag.select(["group_id", "topic", "topic_id", "partition"])
    return lines_of_places(places.to_pylist(), held_by(holders))


def lines_of_places(
    places: Iterable[Mapping[str, Any]], found: Mapping[tuple[Any, ...], str], most: int = 5
) -> list[str]:
    """Return the same of share partitions, by what `held_by` found of them."""
    lines = [
        f"{place['topic'] or place['topic_id']}:{place['partition']}: {found[key]}"
        for place in places
        if (key := tuple(place[name] for name in _SHARE_PARTITION)) in found
    ]
    more = len(lines) - most
    return lines[:most] + ([f"and {more} share partitions more"] if more > 0 else [])


def with_holders(rows: pa.Table, holders: pa.Table) -> pa.Table:
    """Add who holds offsets to the notes of lag, or notes of that to windows."""
    said, field = holder_notes(rows, holders), LAG.field("notes")
    at = rows.schema.get_field_index("notes")
    if at < 0:
        return rows.append_column(field, pa.array(said, field.type))
    notes = flat(rows.column(at)).to_pylist()
    both = [[*(old or []), *new] for old, new in zip(notes, said, strict=True)]
    return rows.set_column(at, field, pa.array(both, field.type))


def _index(names: pa.Array, places: pa.Array) -> _Ints:
    found = pc.index_in(names, places).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.asarray(found, np.int64)


def _numbers(column: pa.Array | pa.ChunkedArray) -> _Ints:
    return np.asarray(flat(column).to_numpy(zero_copy_only=False), np.int64)
