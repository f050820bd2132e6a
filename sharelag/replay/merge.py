"""Merge state batches as Kafka's ``PersisterStateBatchCombiner`` (4.3.1) does.

Batches that it leaves unmerged stay unmerged. `combine` is the readable form; `combine_rows` is the
same algorithm over an integer matrix, compiled, for replay. Kafka 4.4 gives each offset the same
state and also joins equal neighbours (KAFKA-20691): the result is joined once, at the end, if
`joins_neighbours`.

Batches are ordered by (first, last, count, state). The *rank* of a batch is (count, state). Old and
new batches are treated equally: where two overlap, the higher rank wins.

    lower rank first            higher rank first           equal rank
    a  -----------              a  ===========              a  -----
    b      =====                b      -----------          b     ------
       ----=====--                 ===========----             ---------

    (a strictly around b: three pieces; b reaching or passing a's end: two; equal ranks also join
    when they only touch)
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from sharelag.compiled import part
from sharelag.model import UNINITIALIZED_START_OFFSET, StateBatch
from sharelag.model.versions import Version, has_reached
from sharelag.replay import layout as k

# Columns of the matrix of `combine_rows`, in the order of comparison.
FIRST, LAST, COUNT, STATE = range(4)
_Row: TypeAlias = tuple[int, int, int, int]


def combine(
    existing: Iterable[StateBatch],
    new: Iterable[StateBatch],
    start_offset: int = -1,
    kafka_version: str | None = None,
) -> list[StateBatch]:
    """Merge state batches as Kafka's share coordinator does.

    Parameters
    ----------
    existing, new : iterables of StateBatch
        In any order.
    start_offset : int
        Lower offsets are dropped; -1 keeps all.
    kafka_version : str, optional
        Version of the coordinator, such as ``4.3.1``; the newest if there is none.

    Returns
    -------
    list of StateBatch
        Sorted and disjoint. Before Kafka 4.4 not always maximally merged: batches before a merged
        pair are final, even if the merge makes it touch an equal neighbour. So a boundary between
        equal neighbours means nothing. Fewer than two batches are not sorted.

    Raises
    ------
    ValueError
        A batch ends before it begins, so that Kafka's merge would never end.
    """
    kept = [StateBatch(*batch) for batch in (*existing, *new)]
    if start_offset != -1:
        left = (one for one in kept if one.last_offset >= start_offset)
        kept = [StateBatch(max(one[0], start_offset), *one[1:]) for one in left]
    if len(kept) < 2:
        return kept
    todo: list[_Row] = sorted({_sortable(batch) for batch in kept})
    at, merges = 0, _merges_allowed(len(todo))
    while at + 1 < len(todo):
        a, b = todo[at], todo[at + 1]
        touching = b[FIRST] == a[LAST] + 1 and b[COUNT:] == a[COUNT:]
        if b[FIRST] > a[LAST] and not touching:
            at += 1
            continue
        if (merges := merges - 1) < 0 and any(batch[LAST] < batch[FIRST] for batch in todo):
            raise ValueError("a state batch ends before it begins, and merging it would never end")
        del todo[at : at + 2]
        for piece in _merge(a, b):
            if piece not in todo[at:]:
                insort(todo, piece, lo=at)
    found = [StateBatch(first, last, state, count) for first, last, count, state in todo]
    return join_neighbours(found) if joins_neighbours(kafka_version) else found


def joins_neighbours(kafka_version: Version) -> bool:
    """Return whether a version's coordinator joins equal neighbours; None: the newest."""
    return has_reached(kafka_version, "4.4")


def join_neighbours(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Join equal neighbours of sorted batches, as a coordinator of Kafka 4.4 does."""
    joined: list[StateBatch] = []
    for batch in batches:
        before = joined[-1] if joined else None
        if before and before[1] + 1 == batch[0] and before[2:] == batch[2:]:
            joined[-1] = before._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return joined


def _sortable(batch: StateBatch) -> _Row:
    return batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state


def _merge(a: _Row, b: _Row) -> list[_Row]:
    """Return the pieces of an overlapping or touching pair; a comes before b."""
    if b[COUNT:] == a[COUNT:]:
        return [(a[FIRST], max(a[LAST], b[LAST]), *a[2:])]
    if b[COUNT:] < a[COUNT:]:
        return [a, (a[LAST] + 1, b[LAST], *b[2:])] if b[LAST] > a[LAST] else [a]
    pieces = [b]
    if b[FIRST] > a[FIRST]:
        pieces.append((a[FIRST], b[FIRST] - 1, *a[2:]))
    if b[LAST] < a[LAST]:
        pieces.append((b[LAST] + 1, a[LAST], *a[2:]))
    return pieces


@part
def _merges_allowed(n: int) -> int:
    """Return an upper bound of merges for n valid batches; only an inverted batch exceeds it."""
    return 1000 + 8 * n


# ---- compiled ------------------------------------------------------------------------------------


@part
def combine_rows(rows: Any, n: int, start: int) -> int:
    """Combine ``rows[:n]`` in place and return the new number of rows; -1 where `combine` raises.

    The matrix needs room for ``2 * n + 2`` rows, the maximum number of pieces of n intervals.
    """
    inverted = False
    for i in range(n):
        inverted |= rows[i, LAST] < rows[i, FIRST]
    if start != -1:
        kept = 0
        for i in range(n):
            if rows[i, LAST] >= start:
                _move(rows, kept, i)
                rows[kept, FIRST] = max(rows[i, FIRST], start)
                kept += 1
        n = kept
    if n < 2:
        return n
    n = _sort(rows, n)
    # Pending rows are at the end of the matrix, finished ones at its start, and pieces return to
    # the front of the pending rows, so a merge moves only the few batches that sort before them.
    end = min(rows.shape[0], 2 * n + 2)
    head, done, merges = end - n, 0, _merges_allowed(n)
    for i in range(n - 1, -1, -1):
        _move(rows, head + i, i)
    while head + 1 < end:
        a0, a1, a2, a3 = rows[head, 0], rows[head, 1], rows[head, 2], rows[head, 3]
        b0, b1, b2, b3 = rows[head + 1, 0], rows[head + 1, 1], rows[head + 1, 2], rows[head + 1, 3]
        equal = a2 == b2 and a3 == b3
        if b0 > a1 and not (equal and b0 == a1 + 1):
            _move(rows, done, head)
            done, head = done + 1, head + 1
            continue
        merges -= 1
        if inverted and (merges < 0 or head - done < 2):
            return -1
        head += 2
        if equal:
            head = _put_back(rows, head, end, a0, max(a1, b1), a2, a3)
        elif b2 < a2 or (b2 == a2 and b3 < a3):
            head = _put_back(rows, head, end, a0, a1, a2, a3)
            if b1 > a1:
                head = _put_back(rows, head, end, a1 + 1, b1, b2, b3)
        else:
            head = _put_back(rows, head, end, b0, b1, b2, b3)
            if b0 > a0:
                head = _put_back(rows, head, end, a0, b0 - 1, a2, a3)
            if b1 < a1:
                head = _put_back(rows, head, end, b1 + 1, a1, a2, a3)
    _move(rows, done, head)
    return done + 1


@part
def _move(rows: Any, to: int, at: int) -> None:
    """Copy a row number by number, which is several times faster than copying an array."""
    rows[to, FIRST], rows[to, LAST] = rows[at, FIRST], rows[at, LAST]
    rows[to, COUNT], rows[to, STATE] = rows[at, COUNT], rows[at, STATE]


@part
def _compare(rows: Any, i: int, first: int, last: int, count: int, state: int) -> int:
    if rows[i, FIRST] != first:
        return -1 if rows[i, FIRST] < first else 1
    if rows[i, LAST] != last:
        return -1 if rows[i, LAST] < last else 1
    if rows[i, COUNT] != count:
        return -1 if rows[i, COUNT] < count else 1
    if rows[i, STATE] != state:
        return -1 if rows[i, STATE] < state else 1
    return 0


@part
def _put_back(rows: Any, head: int, end: int, first: int, last: int, count: int, state: int) -> int:
    """Insert a piece into sorted ``rows[head:end]`` unless it is there; return the new head."""
    at = head
    while at < end:
        order = _compare(rows, at, first, last, count, state)
        if order == 0:
            return head
        if order > 0:
            break
        at += 1
    for i in range(head, at):
        _move(rows, i - 1, i)
    rows[at - 1, FIRST], rows[at - 1, LAST] = first, last
    rows[at - 1, COUNT], rows[at - 1, STATE] = count, state
    return head - 1


@part
def _sort(rows: Any, n: int) -> int:
    """Sort by insertion, and remove duplicates: most lists are short and sorted."""
    size = 0
    for i in range(n):
        first, last, count, state = rows[i, FIRST], rows[i, LAST], rows[i, COUNT], rows[i, STATE]
        at = size
        while at > 0 and _compare(rows, at - 1, first, last, count, state) > 0:
            at -= 1
        if at > 0 and _compare(rows, at - 1, first, last, count, state) == 0:
            continue
        for row in range(size, at, -1):
            _move(rows, row, row - 1)
        rows[at, FIRST], rows[at, LAST] = first, last
        rows[at, COUNT], rows[at, STATE] = count, state
        size += 1
    return size


# ---- merging around new batches ------------------------------------------------------------------
# The result is that of `combine`: the same batches in the same order of merging, including those
# that Kafka leaves unmerged. A merged list is sorted and disjoint, so batches that no new one
# touches stay unchanged, except equal neighbours that an earlier merge left: Kafka's next merge
# joins those, wherever they are. A *seam* is the boundary of two such neighbours.
#
#     rows     ----  ======     --------  ====|====    -----
#     new                 ++++++++
#     merged   ~~~~  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^    ~~~~~     (^ rewritten, | a seam)
#
# Here a batch is three consecutive numbers: first offset, last offset, and the rank, which orders
# batches by delivery count, then state. A list is the position of its first batch in an array.
# Kernels index arrays number by number, because a slice is an object whose references are counted.


#: Column of the rank, after `FIRST` and `LAST`.
RANK = 2
#: Numbers per batch.
SIZE = 3
# Lists of the working array, each a quarter of it: new batches, replacements of changed ones, and
# the normalized batches before and after a record.
FRESH, OUT, OLD, OWN = range(4)
#: The largest offset. Batches that nearly reach it, or begin below 0, are left to `combine_rows`.
GREATEST = np.iinfo(np.int64).max


@part
def rank_of(state: Any, count: Any) -> Any:
    """Order batches as Kafka does: by delivery count, then delivery state."""
    return (np.int64(count) << 8) + np.int64(state) + 128


@part
def count_of(rank: Any) -> Any:
    """Return the delivery count of a rank."""
    return rank >> 8


@part
def state_of(rank: Any) -> Any:
    """Return the delivery state of a rank."""
    return (rank & 255) - 128


@part
def put(to: Any, at: Any, first: Any, last: Any, rank: Any) -> None:
    """Write a batch."""
    to[at], to[at + LAST], to[at + RANK] = first, last, rank


@part
def copy(to: Any, at: int, rows: Any, begin: int, count: int) -> None:
    """Copy batches from one array to another."""
    for i in range(SIZE * count):
        to[at + i] = rows[begin + i]


@part
def seams(rows: Any, at: int, size: int, start: int) -> Any:
    """Return whether `merge_rows` can extend a list, and its first and last seams.

    The list has to be sorted, disjoint and begin at the start offset or later. The first seam is
    the first batch that equals and touches the next one, the last seam the last batch that equals
    and touches the previous one; -1 without any.
    """
    seam, seam_end, before, before_rank = -1, -1, max(start, 0) - 1, np.int64(-1)
    for i in range(size):
        first, last = rows[at + SIZE * i], rows[at + SIZE * i + LAST]
        rank = rows[at + SIZE * i + RANK]
        if first <= before or last < first or last >= GREATEST - 1:
            return False, -1, -1
        if i > 0 and first == before + 1 and rank == before_rank:
            seam = i - 1 if seam < 0 else seam
            seam_end = i
        before, before_rank = last, rank
    return True, seam, seam_end


@part
def merge_rows(
    rows: Any, at: int, begin: int, end: int, seam: int, seam_end: int, work: Any, size: int
) -> Any:
    """Merge ``size`` new batches at `FRESH` into a list for which `seams` holds.

    The new ones are sorted and disjoint. There is room for another batch at the end of the list,
    and at `OUT` for twice the number of old and new ones. Return ``changed, unchanged, size, seam,
    seam_end``: the batches from ``changed`` to ``unchanged`` are to be replaced by those at `OUT`;
    the seams are those of the new list.
    """
    out = work.size // 4  # the position of `OUT`; `FRESH` is at 0
    # A batch at the largest offset marks the end of a list; real batches do not begin there.
    rows[at + SIZE * end], work[SIZE * size] = GREATEST, GREATEST
    changed = _first_reaching(rows, at, begin, end, work[0] - 1) if size > 0 else end
    if 0 <= seam < changed:
        changed = seam
    b, c, done = at + SIZE * changed, 0, out
    ahead = at + SIZE * seam_end
    seam, past = -1, -1
    # The last output batch: -2 touches nothing.
    before, before_rank = np.int64(-2), np.int64(0)
    if changed > begin:
        before, before_rank = rows[b - SIZE + LAST], rows[b - SIZE + RANK]
    # a is the current batch; b and c are the next ones of the old and of the new list.
    a0, a1, ar, of_new = np.int64(-3), np.int64(-3), np.int64(0), False
    b0, b1, br = rows[b], rows[b + LAST], rows[b + RANK]
    c0, c1, cr = work[0], work[LAST], work[RANK]
    while True:
        is_new = c0 < b0 or (c0 == b0 and (c1 < b1 or (c1 == b1 and cr < br)))
        x0, x1, xr = (c0, c1, cr) if is_new else (b0, b1, br)
        keeps = False
        if x0 > a1:
            if x0 == a1 + 1 and xr == ar:
                a1, of_new = x1, is_new
            else:
                if a0 >= 0:
                    if a0 == before + 1 and ar == before_rank:
                        past = changed + (done - out) // SIZE
                        seam = past - 1 if seam < 0 else seam
                    before, before_rank = a1, ar
                    put(work, done, a0, a1, ar)
                    done += SIZE
                    # An unsplit old batch, all new ones used, and no seam ahead: the rest stays.
                    rest = not is_new and c == SIZE * size and b >= ahead and b0 == rows[b]
                    if x0 == GREATEST or rest:
                        break
                elif x0 == GREATEST:
                    break
                a0, a1, ar, of_new = x0, x1, xr, is_new
        elif xr == ar:
            if x1 > a1:
                a1, of_new = x1, is_new
        elif xr < ar:
            if x1 > a1:
                # The part beyond the end of a becomes the next batch of its list.
                x0, keeps = a1 + 1, True
        else:
            if x0 > a0:
                if a0 == before + 1 and ar == before_rank:
                    past = changed + (done - out) // SIZE
                    seam = past - 1 if seam < 0 else seam
                before, before_rank = x0 - 1, ar
                put(work, done, a0, x0 - 1, ar)
                done += SIZE
            if x1 < a1:
                # The rest of a beyond the end of b goes back to the list of a.
                if of_new:
                    c -= SIZE
                    c0, c1, cr = x1 + 1, a1, ar
                else:
                    b -= SIZE
                    b0, b1, br = x1 + 1, a1, ar
            a0, a1, ar, of_new = x0, x1, xr, is_new
        if keeps:
            if is_new:
                c0 = x0
            else:
                b0 = x0
        elif is_new:
            c += SIZE
            c0, c1, cr = work[c], work[c + LAST], work[c + RANK]
        else:
            b += SIZE
            b0, b1, br = rows[b], rows[b + LAST], rows[b + RANK]
    return changed, (b - at) // SIZE, (done - out) // SIZE, seam, past


@part
def _first_reaching(rows: Any, at: int, begin: int, end: int, offset: int) -> int:
    while begin < end:
        middle = (begin + end) >> 1
        if rows[at + SIZE * middle + LAST] < offset:
            begin = middle + 1
        else:
            end = middle
    return begin


@part
def splice(
    rows: Any, at: int, changed: int, unchanged: int, end: int, work: Any, size: int
) -> None:
    """Replace the batches that `merge_rows` changed."""
    shift = SIZE * (changed + size - unchanged)
    if shift > 0:
        for i in range(at + SIZE * end - 1, at + SIZE * unchanged - 1, -1):
            rows[i + shift] = rows[i]
    elif shift < 0:
        for i in range(at + SIZE * unchanged, at + SIZE * end):
            rows[i + shift] = rows[i]
    copy(rows, at + SIZE * changed, work, work.size // 4, size)


@part
def combine_any(rows: Any, at: int, n: int, fresh: Any, more: int, start: int) -> Any:
    """Combine any lists with `combine_rows`; return its matrix and its size, or -1."""
    matrix = np.empty((2 * (n + more) + 2, 4), np.int64)
    for i in range(n + more):
        source, place = (rows, at + SIZE * i) if i < n else (fresh, SIZE * (i - n))
        rank = source[place + RANK]
        matrix[i, FIRST], matrix[i, LAST] = source[place], source[place + LAST]
        matrix[i, COUNT], matrix[i, STATE] = count_of(rank), state_of(rank)
    return matrix, combine_rows(matrix, n + more, start)


@part
def from_matrix(matrix: Any, n: int, rows: Any, at: int) -> None:
    """Write the matrix of `combine_rows` to a list."""
    for i in range(n):
        rank = rank_of(matrix[i, STATE], matrix[i, COUNT])
        put(rows, at + SIZE * i, matrix[i, FIRST], matrix[i, LAST], rank)


# ---- values derived from the batches of a state --------------------------------------------------


@part
def compare(old: Any, o: int, old_end: int, new: Any, at: int, size: int, changes: Any) -> None:
    """Compare the batches ``old[o:old_end]`` with a list; sum the changes of each offset."""
    for r in range(at, at + SIZE * size, SIZE):
        first, until, rank = new[r], new[r + LAST], new[r + RANK]
        state, count = state_of(rank), count_of(rank)
        while first <= until:
            while o < old_end and old[o + LAST] < first:
                o += SIZE
            covered = o < old_end and old[o] <= first
            stop = until
            if o < old_end:
                stop = min(until, old[o + LAST] if covered else old[o] - 1)
            if not covered or old[o + RANK] != rank:
                was, size_here = count_of(old[o + RANK]) if covered else 0, stop - first + 1
                if state == 4 and not (covered and state_of(old[o + RANK]) == 4):
                    changes[k.ARCHIVED] += size_here
                if count > was:
                    changes[k.REDELIVERED] += size_here * (count - max(was, 1))
                    if state == 0:
                        changes[k.RELEASED] += size_here
            if stop == GREATEST:
                break  # no offset follows
            first = stop + 1


@part
def runs_of(state: Any, s: int, heap: Any, work: Any, to: int) -> int:
    """Write the batches of a state sorted, disjoint, merged and clipped; return their number.

    They are written to a list of the working array, clipped to the start offset.
    """
    to *= work.size // 4
    begin, size = place_of(state, s), state[s + k.END] - state[s + k.BEGIN]
    if state[s + k.PLAIN] == 1:
        return _join(heap, begin, size, work, to)
    return _join(
        work, to, _runs_of_any(heap, begin, size, work, to, state[s + k.START_OFFSET]), work, to
    )


@part
def _runs_of_any(rows: Any, at: int, size: int, work: Any, to: int, start: int) -> int:
    kept = 0
    for i in range(at, at + SIZE * size, SIZE):
        if rows[i] <= rows[i + LAST]:
            put(work, to + SIZE * kept, rows[i], rows[i + LAST], rows[i + RANK])
            kept += 1
    matrix, kept = combine_any(work, to, kept, work, 0, start)
    from_matrix(matrix, kept, work, to)
    return int(kept)


@part
def place_of(state: Any, s: int) -> int:
    """Return the position of a state's first batch in the heap."""
    return state[s + k.PLACE] + SIZE * state[s + k.BEGIN]


@part
def _join(rows: Any, at: int, size: int, to: Any, begin: int) -> int:
    """Join equal neighbours of a list; the result may overwrite it."""
    n, before, before_rank = 0, np.int64(-2), np.int64(0)
    for i in range(at, at + SIZE * size, SIZE):
        first, last, rank = rows[i], rows[i + LAST], rows[i + RANK]
        if n > 0 and before + 1 == first and before_rank == rank:
            to[begin + SIZE * (n - 1) + LAST] = last
        else:
            put(to, begin + SIZE * n, first, last, rank)
            n += 1
        before, before_rank = last, rank
    return n


@part
def measure(rows: Any, at: int, size: int, state: Any, s: int) -> int:
    """Store values derived from sorted, disjoint batches: both ends of the window, and sums.

    Return the number of finished batches at the start.
    """
    start = state[s + k.START_OFFSET]
    effective, i, end = start, at, at + SIZE * size
    complete = available = greatest = runs = 0
    while start != UNINITIALIZED_START_OFFSET and i < end and rows[i] == effective:
        if not is_terminal(state_of(rows[i + RANK])):
            break
        complete += rows[i + LAST] - rows[i] + 1
        # The largest int64 has no next offset.
        effective = min(rows[i + LAST], GREATEST - 1) + 1
        i += SIZE
    skipped = (i - at) // SIZE
    head, until = np.int64(0), effective - 1
    if i < end and rows[i] == effective:
        head = count_of(rows[i + RANK])
    begin, before = i, np.int64(0)
    while i < end:
        # Without branches, which depend on the data and would be mispredicted.
        first, last, rank = rows[i], rows[i + LAST], rows[i + RANK]
        here, is_done = last - first + 1, is_terminal(state_of(rank))
        runs += (i == begin) | (first != until + 1) | (rank != before)
        complete += here * is_done
        available += here * (state_of(rank) == 0)
        greatest = max(greatest, count_of(rank) * (not is_done))
        until, before = last, rank
        i += SIZE
    state[s + k.EFFECTIVE_START], state[s + k.AVAILABLE] = effective, available
    state[s + k.COMPLETE], state[s + k.RUNS] = complete, runs
    state[s + k.MAX_COUNT], state[s + k.HEAD_COUNT] = greatest, head
    state[s + k.WINDOW_END] = until if until == GREATEST else until + 1
    return skipped


@part
def is_terminal(state: int) -> bool:
    """Return whether a state is acknowledged or archived."""
    return bool((state == 2) | (state == 4))
