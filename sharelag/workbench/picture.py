"""A window drawn as text: offsets, states and delivery counts one below the other.

The picture of KIP-1226, of persisted state: offsets in the window without one are unknown, unless a
log of requests tells that they are acquired. Delivery counts are those that were persisted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from sharelag.model import DeliveryState
from sharelag.tables.words import counted, shown_name, terminal

#: Runs of up to so many offsets are drawn offset by offset; longer ones are one cell.
_DRAWN = 4
#: Cells of one window; what lies beyond is said in a sentence.
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
    DeliveryState.ACQUIRED: ("Q", "acquired, by the log of requests", "blue"),
    None: (_UNKNOWN, "no persisted state: acquired, or never persisted", "blue"),
}

Paint = Callable[[str, str], str]


class _Cell(NamedTuple):
    """Offsets ``first..last`` with one state, None where it is unknown."""

    first: int
    last: int
    state: int | None
    deliveries: int | None

    @property
    def texts(self) -> tuple[str, str, str]:
        """What stands in the rows of offsets, states and delivery counts."""
        offsets = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        # A state of a future version of Kafka is shown by its number.
        letter = _STATES[self.state][0] if self.state in _STATES else str(self.state)
        return offsets, letter, "-" if self.deliveries is None else str(self.deliveries)

    @property
    def width(self) -> int:
        """Columns of the widest text."""
        return max(map(len, self.texts))


def pictures(rows: list[dict[str, Any]], paint: Paint | None = None) -> Iterator[str]:
    """Draw windows as lines of at most 80 columns, without names and colours counted.

    The rows have Kafka's names, as ``window_rows`` gives them, and in ``held`` runs that somebody
    holds as first offset, last offset and delivery count. ``paint`` colours a text by the name of a
    colour; without it the lines are plain.
    """
    seen: set[int | None] = set()
    for row in rows:
        yield f"{shown_name(row['group_id'])}  {terminal(row['topic'] or row['topic_id'])}:" + str(
            row["partition"]
        )
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
            yield f"  {_fragments(runs, start, end)}"
            if left is not None:
                yield f"  more offsets follow, from {left} to {end - 1}"
        yield from (f"  {terminal(note)}" for note in row.get("notes") or ())
        yield ""
    if legend := [
        f"{letter} {meaning}" for state, (letter, meaning, _) in _STATES.items() if state in seen
    ]:
        yield from ("states:", *(f"  {text}" for text in legend))


def _fragments(runs: list[list[Any]], start: int, end: int) -> str:
    """Tell how fragmented a window is: what is known of it, by how many runs."""
    known = [(max(first, start), min(last, end - 1)) for first, last, *_ in runs]
    sizes = [last - first + 1 for first, last in known if first <= last]
    known_runs, offsets = counted(len(sizes), "run"), counted(sum(sizes), "offset")
    return f"{known_runs} over {offsets} with a known state"


def _with_held(runs: list[list[Any]], held: list[Any]) -> list[list[Any]]:
    """Put what is acquired in the place of what was persisted before."""
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
    return sorted(
        [*kept, *([first, last, DeliveryState.ACQUIRED, count] for first, last, count in held)]
    )


def _cells(runs: list[list[Any]], start: int, end: int) -> tuple[list[_Cell], int | None]:
    """Fold a window into cells; the second value is the first offset that found no place."""
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
    """Draw a short run offset by offset."""
    if cell.last - cell.first >= _DRAWN:
        return [cell]
    return [cell._replace(first=at, last=at) for at in range(cell.first, cell.last + 1)]


def _draw_rows(cells: list[_Cell], start: int, last: int, paint: Paint | None) -> Iterator[str]:
    """Draw rows of cells, as many in each as the width holds."""
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
    """One text of a cell as wide as the cell; states in their colour."""
    text = cell.texts[index].ljust(cell.width)
    if paint is None or index != 1 or cell.state not in _STATES:
        return text
    return paint(text, _STATES[cell.state][2])
