"""Holders of unfinished offsets, if a broker's request log covers the moment.

The state topic has neither acquired records nor members. A request log has both, so unknown offsets
become *acquired by a member since a time*, or *never delivered*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.columns import mask, numbers
from sharelag.replay.holds import held_at
from sharelag.schemas import HOLDERS, INSTANT, LAG, SHARE_PARTITION, Arrow, Ints
from sharelag.tables.arrow import as_table, ascending, flat, integers, keys, table_of
from sharelag.tables.words import moment as time_words
from sharelag.tables.words import pluralize

ACQUIRED, NEVER_DELIVERED = "acquired", "never delivered"
#: Maximum number of runs of a share partition that notes name; the others are counted.
_NAMED = 3
#: Maximum number of share partitions with a line each.
_MOST_LINES = 5


def holders_arrow(
    lag: Arrow, windows: Arrow, tables: Mapping[str, Arrow], holds: pa.Table, moment: int
) -> pa.Table:
    """Return the holders of the offsets of share partitions, and offsets never delivered.

    ``lag`` and ``windows`` are as of the moment (in microseconds since 1970), which the log has to
    cover; ``tables`` are `sharelag.schemas.REQUEST_TABLES` by name. The result is
    `sharelag.schemas.HOLDERS`, sorted. Offsets are called never delivered only where the log has
    all of the share partition, from its initialization on.
    """
    rows = as_table(lag)
    chosen = keys(rows, SHARE_PARTITION)
    mine = pc.is_in(keys(holds, SHARE_PARTITION), chosen)
    held = held_at(holds.filter(mine), moment)
    columns = {name: held.column(name) for name in held.column_names}
    columns["lock_state"] = pa.repeat(ACQUIRED, held.num_rows)
    free = _never_delivered(rows, as_table(windows), tables, moment)
    both = pa.concat_tables([table_of(columns, HOLDERS), free])
    return both.sort_by(ascending(*SHARE_PARTITION, "first_offset"))


def _never_delivered(
    lag: pa.Table, windows: pa.Table, tables: Mapping[str, Arrow], moment: int
) -> pa.Table:
    """Return the unfinished offsets up to the end that were never acquired."""
    at = pa.scalar(moment).cast(INSTANT)
    calls, acquired = as_table(tables["state_calls"]), as_table(tables["acquisitions"])
    good = pc.and_(pc.equal(calls["call"], "initialize"), pc.equal(calls["error_code"], 0))
    before = calls.filter(pc.and_(good, pc.less_equal(calls["timestamp"], at)))
    start, has_start = numbers(lag, "effective_start_offset")
    end, has_end = numbers(lag, "end_offset")
    mine = keys(lag, SHARE_PARTITION)
    whole = mask(pc.is_in(mine, keys(before, SHARE_PARTITION)))
    chosen = np.flatnonzero(whole & has_start & has_end & (end > start))
    places = mine.take(pa.array(chosen))
    acquired = acquired.filter(pc.less_equal(acquired.column("timestamp"), at))
    runs = flat(windows.column("runs"))
    of_window, states = pc.list_parent_indices(runs), pc.list_flatten(runs)
    seen = pa.concat_arrays(
        [keys(acquired, SHARE_PARTITION), keys(windows, SHARE_PARTITION).take(of_window)]
    )
    place = np.asarray(pc.index_in(seen, places).fill_null(-1).to_numpy(), np.int64)
    first, last = (
        np.append(integers(acquired, name), pc.struct_field(states, name).to_numpy())
        for name in ("first_offset", "last_offset")
    )
    there = place >= 0
    ranges = place[there], first[there], last[there] + 1
    of, begin, stop = _between(*ranges, start[chosen], end[chosen])
    names = lag.select(list(SHARE_PARTITION)).take(pa.array(chosen[of]))
    columns: dict[str, Any] = {name: names.column(name) for name in SHARE_PARTITION}
    columns |= {"first_offset": pa.array(begin), "last_offset": pa.array(stop - 1)}
    columns["lock_state"] = pa.repeat(pa.scalar(NEVER_DELIVERED), len(of))
    return table_of(columns, HOLDERS, pad=True)


def _between(
    place: Ints, first: Ints, after: Ints, start: Ints, end: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return the gaps between ranges, from the start to the end of each place."""
    count = len(start)
    number = np.arange(count)
    # Empty ranges at both ends delimit the outer gaps.
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
    """Return the holders of each lag row's offsets, and the number never delivered."""
    found: dict[tuple[Any, ...], list[str]] = {}
    more: dict[tuple[Any, ...], int] = {}
    never: dict[tuple[Any, ...], int] = {}
    for row in holders.to_pylist():
        key = tuple(row[name] for name in SHARE_PARTITION)
        if row["lock_state"] == NEVER_DELIVERED:
            never[key] = never.get(key, 0) + row["last_offset"] - row["first_offset"] + 1
        elif len(found.setdefault(key, [])) < _NAMED:
            found[key].append(holder_words(row))
        else:
            more[key] = more.get(key, 0) + 1
    notes = []
    for row in lag.select(list(SHARE_PARTITION)).to_pylist():
        key = tuple(row.values())
        words = list(found.get(key, ()))
        words += [f"and {pluralize(more[key], 'more run')}"] if key in more else []
        words += [f"{never[key]} never delivered"] if key in never else []
        notes.append(words)
    return notes


def holder_words(row: Mapping[str, Any]) -> str:
    """Return ``100-109 acquired by member M since 2026-11-23 07:00:01Z``."""
    first, last = row["first_offset"], row["last_offset"]
    which = f"{first}" if first == last else f"{first}-{last}"
    return f"{which} acquired by {row['member_id']} since {time_words(row['since'])}"


def held_by(holders: pa.Table) -> dict[tuple[Any, ...], str]:
    """Return the holders of each share partition's offsets as one text."""
    acquired = holders.filter(pc.equal(holders.column("lock_state"), ACQUIRED))
    places = acquired.group_by(list(SHARE_PARTITION)).aggregate([])
    notes = holder_notes(places, acquired)
    pairs = zip(places.to_pylist(), notes, strict=True)
    return {tuple(row.values()): "; ".join(words) for row, words in pairs}


def holder_lines(lag: Arrow, holders: pa.Table) -> list[str]:
    """Return ``orders:0: 680-699 acquired by member M since ...``, one line per share partition."""
    places = lag.select(["group_id", "topic", "topic_id", "partition"])
    return lines_of_places(places.to_pylist(), held_by(holders))


def lines_of_places(
    places: Iterable[Mapping[str, Any]], found: Mapping[tuple[Any, ...], str]
) -> list[str]:
    """Return the result of `held_by` as one line per share partition."""
    lines = [
        f"{place['topic'] or place['topic_id']}:{place['partition']}: {found[key]}"
        for place in places
        if (key := tuple(place[name] for name in SHARE_PARTITION)) in found
    ]
    more = len(lines) - _MOST_LINES
    rest = [f"and {pluralize(more, 'more share partition')}"] if more > 0 else []
    return lines[:_MOST_LINES] + rest


def add_holders(rows: pa.Table, holders: pa.Table) -> pa.Table:
    """Add holders to the notes of lag, or such notes to windows."""
    added, field = holder_notes(rows, holders), LAG.field("notes")
    at = rows.schema.get_field_index("notes")
    if at < 0:
        return rows.append_column(field, pa.array(added, field.type))
    notes = flat(rows.column(at)).to_pylist()
    both = [[*(old or []), *new] for old, new in zip(notes, added, strict=True)]
    return rows.set_column(at, field, pa.array(both, field.type))


def with_held_runs(rows: pa.Table, holders: pa.Table) -> pa.Table:
    """Add the acquired runs of each share partition, as ``held``: first, last, delivery count."""
    found: dict[tuple[Any, ...], list[tuple[int, int, int]]] = {}
    acquired = holders.filter(pc.equal(holders.column("lock_state"), ACQUIRED))
    for row in acquired.to_pylist():
        run = (row["first_offset"], row["last_offset"], row["delivery_count"])
        found.setdefault(tuple(row[name] for name in SHARE_PARTITION), []).append(run)
    places = rows.select(list(SHARE_PARTITION)).to_pylist()
    held = [found.get(tuple(place.values()), []) for place in places]
    return rows.append_column("held", pa.array(held, pa.list_(pa.list_(pa.int64()))))
