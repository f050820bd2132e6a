"""Windows and records as the command line prints them: as rows, and windows drawn as text.

The picture is that of KIP-1226, of persisted state: offsets in the window without one are unknown,
unless a request log shows that they are acquired. Delivery counts are the persisted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import accumulate, chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import list_names
from sharelag.model import DeliveryState
from sharelag.replay.state import window_items
from sharelag.schemas import Arrow
from sharelag.tables.arrow import flat, without_timestamps
from sharelag.tables.words import pluralize, shown_name, terminal
from sharelag.wire.decode import Decoded
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE
from sharelag.wire.formatter import kafka_json, kafka_texts, reject_json, reject_texts
from sharelag.wire.generations import NAMES, SHARE, latest_types

_DERIVED = ("effective_start_offset", "window_end_offset", "from_snapshot", "rejected_records")


def window_rows(table: Arrow) -> list[dict[str, Any]]:
    """Return one object per share partition: the fields of `sharelag.Window`, then derived ones.

    A window's own fields are the coordinator's, with Kafka's -1 and 0; derived ones are null where
    unknown.
    """
    rows = []
    plain = without_timestamps(table).to_pylist()
    for row, (key, window) in zip(plain, window_items(table), strict=True):
        derived = {name: row[name] for name in _DERIVED}
        raw = {name: getattr(window, name) for name in window.__slots__}
        batches = [list(batch) for batch in window.batches]
        runs = [list(batch.values()) for batch in row["runs"]]
        rows.append(
            {"group_id": key.group_id, "topic": row.get("topic"), "topic_id": key.topic_id}
            | {"partition": key.partition, **raw, "batches": batches, **derived, "runs": runs}
            | {"notes": row.get("notes") or []}
            | ({"held": row["held"]} if "held" in row else {})
        )
    return rows


def decode_texts(decoded: Decoded) -> Iterator[str]:
    """Yield the rows of `decode_rows` as texts of many JSON lines."""
    for texts in chain(kafka_texts(decoded.records), reject_texts(decoded.rejects)):
        yield "\n".join(texts.to_pylist())


def decode_rows(decoded: Decoded, columns: bool = False) -> Iterator[dict[str, Any]]:
    """Yield records in the form of Kafka's formatters, then rejects, each in log order.

    With ``columns`` all rows have the same keys, for a table.
    """
    names = ("key", "value", "reject", "topic", "partition", "offset") if columns else ()
    empty = dict.fromkeys(names)
    for row in chain(kafka_json(decoded.records), reject_json(decoded.rejects)):
        yield empty | row


def older_generations(records: Arrow) -> Counter[str]:
    """Count the records of each older generation of the format, such as ``G3``.

    Checkpoints of control records are equal in G0 and G1; beside only G0 deltas they count as G0.
    """
    if "generation" not in records.schema.names:
        return Counter()
    generation = flat(records.column("generation"))
    chosen = pa.table({"generation": generation, "kind": flat(records.column("record_type"))})
    chosen = chosen.filter(pc.is_valid(generation))
    found = chosen.group_by(["generation", "kind"]).aggregate([([], "count_all")]).to_pylist()
    counts = {(each["generation"], each["kind"]): each["count_all"] for each in found}
    if (0, SHARE_UPDATE.type) in counts and (1, SHARE_UPDATE.type) not in counts:
        counts[0, SHARE_SNAPSHOT.type] = counts.pop((1, SHARE_SNAPSHOT.type), 0)
    total: Counter[str] = Counter()
    for (number, _), count in counts.items():
        total[f"G{number} ({NAMES[number]})"] += count
    return total


def draft_types(found: list[pa.Table], groups: Collection[str] = ()) -> Iterator[str]:
    """Yield sentences on draft group types, and on misread share groups.

    ``found`` has `sharelag.wire.generations.GROUP_TYPES` in the order of the records; ``groups``
    restricts them. There are no sentences if all records have version 0, as Kafka's do.
    """
    types = latest_types(found)
    if groups:
        types = types.filter(pc.is_in(types.column("group_id"), pa.array(sorted(groups))))
    if not types.num_rows or pc.max(types.column("version")).as_py() == 0:
        return
    by_type: dict[str, list[str]] = {}
    for row in types.select(["group_id", "type"]).to_pylist():
        by_type.setdefault(row["type"] or "unknown", []).append(row["group_id"])
    words = "; ".join(f"{kind}: {list_names(names)}" for kind, names in sorted(by_type.items()))
    yield f"types of groups in ConsumerGroupMetadata, as a draft of KIP-932 has them: {words}"
    if shares := by_type.get(SHARE):
        yield (
            "software that knows only version 0 of ConsumerGroupMetadata reads as consumer groups, "
            f"though they are share groups: {list_names(shares)}"
        )


#: Maximum length of runs that are drawn offset by offset; longer ones are one cell.
_DRAWN = 4
#: Maximum number of cells of a window; a sentence describes the rest.
_CELLS = 120
_WIDTH = 80
_UNKNOWN = "?"
#: Letter, meaning and colour of each state.
_STATES: Mapping[int | None, tuple[str, str, str]] = {
    DeliveryState.AVAILABLE: ("A", "available", "yellow"),
    DeliveryState.ACKNOWLEDGED: ("K", "acknowledged", "green"),
    DeliveryState.ARCHIVING: ("G", "archiving", "magenta"),
    DeliveryState.ARCHIVED: ("X", "archived", "red"),
    DeliveryState.TX_PENDING: ("T", "acknowledged in an open transaction", "cyan"),
    DeliveryState.ACQUIRED: ("Q", "acquired, by the request log", "blue"),
    None: (_UNKNOWN, "no persisted state: acquired, or never persisted", "blue"),
}

Paint = Callable[[str, str], str]


class _Cell(NamedTuple):
    """Offsets ``first..last`` with one state; None: unknown."""

    first: int
    last: int
    state: int | None
    deliveries: int | None

    @property
    def texts(self) -> tuple[str, str, str]:
        """Texts in the rows of offsets, states and delivery counts."""
        offsets = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        # States of future Kafka versions are shown by number.
        letter = _STATES[self.state][0] if self.state in _STATES else str(self.state)
        return offsets, letter, "-" if self.deliveries is None else str(self.deliveries)

    @property
    def width(self) -> int:
        """Width of the widest text."""
        return max(map(len, self.texts))


def pictures(rows: list[dict[str, Any]], paint: Paint | None = None) -> Iterator[str]:
    """Draw windows as lines of at most 80 columns, not counting names and colours.

    The rows are those of ``window_rows``; ``held`` has acquired runs as first offset, last offset
    and delivery count. ``paint`` colours a text by the name of a colour; without it, lines are
    plain.
    """
    seen: set[int | None] = set()
    for row in rows:
        place = f"{terminal(row['topic'] or row['topic_id'])}:{row['partition']}"
        yield f"{shown_name(row['group_id'])}  {place}"
        start, end = row["effective_start_offset"], row["window_end_offset"]
        held = sorted(row.get("held") or ())
        end = max([end or 0, *(last + 1 for _, last, _ in held)]) if held else end
        if start is None:
            yield "  the start offset is not known yet"
        elif end is None or end <= start:
            yield f"  no state is persisted of offsets from {start}"
        else:
            runs = _with_held(row["runs"], held)
            cells, left = _cells(runs, start, end)
            seen.update(cell.state for cell in cells)
            yield from _draw_rows(cells, start, end - 1, paint)
            known = [(max(first, start), min(last, end - 1)) for first, last, *_ in runs]
            sizes = [last - first + 1 for first, last in known if first <= last]
            offsets = pluralize(sum(sizes), "offset")
            yield f"  {pluralize(len(sizes), 'run')} over {offsets} with a known state"
            if left is not None:
                yield f"  more offsets follow, from {left} to {end - 1}"
        yield from (f"  {terminal(note)}" for note in row.get("notes") or ())
        yield ""
    shown = [one for state, one in _STATES.items() if state in seen]
    if shown:
        yield from ("states:", *(f"  {letter} {meaning}" for letter, meaning, _ in shown))


def _with_held(runs: list[list[Any]], held: list[Any]) -> list[list[Any]]:
    """Replace persisted runs by acquired ones."""
    if not held:
        return runs
    kept = []
    for first, last, state, count in runs:
        for begin, stop, _ in held:
            if begin <= last and stop >= first:
                if first < begin:
                    kept.append([first, begin - 1, state, count])
                first = stop + 1
        if first <= last:
            kept.append([first, last, state, count])
    kept += [[first, last, DeliveryState.ACQUIRED, count] for first, last, count in held]
    return sorted(kept)


def _cells(runs: list[list[Any]], start: int, end: int) -> tuple[list[_Cell], int | None]:
    """Return the cells of a window, and the first offset beyond the maximum."""
    cells: list[_Cell] = []
    at = start
    beyond: list[Any] = [end, end, None, None]
    for first, last, state, count in [*runs, beyond]:
        if at < first:
            cells += _split(_Cell(at, first - 1, None, None))
        if first < end:
            cells += _split(_Cell(first, last, state, count))
        at = last + 1
        if len(cells) > _CELLS:
            return cells[:_CELLS], cells[_CELLS].first
    return cells, None


def _split(cell: _Cell) -> list[_Cell]:
    """Split a short run into offsets."""
    if cell.last - cell.first >= _DRAWN:
        return [cell]
    return [cell._replace(first=at, last=at) for at in range(cell.first, cell.last + 1)]


def _draw_rows(cells: list[_Cell], start: int, last: int, paint: Paint | None) -> Iterator[str]:
    """Draw rows of cells, as many in each as fit the width."""
    names = ("offset", "state", "delivery count")
    margin = max(map(len, names)) + 3
    while cells:
        ends = accumulate(cell.width + 1 for cell in cells)
        held = max(1, sum(end - 1 <= _WIDTH - margin for end in ends))
        shown, cells = cells[:held], cells[held:]
        for index, name in enumerate(names):
            yield (
                f"  {name:<{margin - 2}}"
                + " ".join(_paint(cell, index, paint) for cell in shown).rstrip()
            )
        carets = " ".join(
            ("^" if cell.first == start or cell.last == last else "").ljust(cell.width)
            for cell in shown
        ).rstrip()
        if carets:
            yield " " * margin + carets
    yield f"  ^ effective start {start}, last offset with a known state {last}"


def _paint(cell: _Cell, index: int, paint: Paint | None) -> str:
    """Return a text of a cell, padded to its width; states in their colour."""
    text = cell.texts[index].ljust(cell.width)
    if paint is None or index != 1 or cell.state not in _STATES:
        return text
    return paint(text, _STATES[cell.state][2])
