"""Merge new state batches into a coordinator's list, around the new ones alone.

The result is that of `combine`: the same batches in the same order of merging, those that Kafka
leaves unmerged among them. A list that comes out of a merge is sorted and disjoint, so batches
that no new one touches stay as they are, except equal neighbours that an earlier merge left:
Kafka's next merge joins those, wherever they are. A *seam* is where two such neighbours meet.

    rows     ----  ======     --------  ====|====    -----
    new                 ++++++++
    merged   ~~~~  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^    ~~~~~     (^ rewritten, | a seam)

Batches here are three arrays: first offset, last offset, and the rank, which orders batches by
delivery count, then state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharelag.compiled import kernel
from sharelag.replay.combine import COUNT, STATE, combine_rows

FIRST, LAST, RANK = range(3)
# Where in the matrix of `merge_rows` new batches are, and what replaces the changed ones; the
# batches of the state come first.
FRESH, OUT = 3, 6
#: The largest offset. Batches that all but reach it, or begin below 0, are left to `combine_rows`.
GREATEST = np.iinfo(np.int64).max


@kernel(inline="always")
def rank_of(state: Any, count: Any) -> Any:
    """Order batches as Kafka does: by delivery count, then delivery state."""
    return (np.int64(count) << 8) + np.int64(state) + 128


@kernel(inline="always")
def count_of(rank: Any) -> Any:
    """Return the delivery count of a rank."""
    return rank >> 8


@kernel(inline="always")
def state_of(rank: Any) -> Any:
    """Return the delivery state of a rank."""
    return (rank & 255) - 128


@kernel
def seams(rows: Any, begin: int, end: int, start: int) -> Any:
    """Whether a list is one that `merge_rows` can extend, and where its first and last seams are.

    Returns
    -------
    plain, seam, seam_end
        Whether it is sorted, disjoint and begins at the start offset or later. The first batch that
        is equal to its next neighbour and touches it, and the last that is so to the one before it;
        -1 if there is none.
    """
    first, last, rank = rows[FIRST], rows[LAST], rows[RANK]
    seam, seam_end, before = -1, -1, max(start, 0) - 1
    for i in range(begin, end):
        if first[i] <= before or last[i] < first[i] or last[i] >= GREATEST - 1:
            return False, -1, -1
        if i > begin and first[i] == before + 1 and rank[i] == rank[i - 1]:
            seam = i - 1 if seam < 0 else seam
            seam_end = i
        before = last[i]
    return True, seam, seam_end


@kernel
def merge_rows(rows: Any, begin: int, end: int, size: int, seam: int, seam_end: int) -> Any:
    """Merge the new batches ``rows[FRESH:, :size]`` into ``rows[:, begin:end]``.

    Parameters
    ----------
    rows : int64[9, ...]
        First a list for which `seams` holds, with its seams; at `FRESH` new batches, sorted and
        disjoint; at `OUT` room for twice as many as there are old and new ones.

    Returns
    -------
    changed, unchanged, size, seam, seam_end
        ``rows[:, changed:unchanged]`` is to be replaced by ``rows[OUT:, :size]``; the seams are
        those then.
    """
    first, last, rank = rows[FIRST], rows[LAST], rows[RANK]
    new_first, new_last, new_rank = rows[FRESH + FIRST], rows[FRESH + LAST], rows[FRESH + RANK]
    out_first, out_last, out_rank = rows[OUT + FIRST], rows[OUT + LAST], rows[OUT + RANK]
    # What begins at the largest offset stands for the end of a list: no batch does.
    first[end], new_first[size] = GREATEST, GREATEST
    changed = _first_reaching(last, begin, end, new_first[0] - 1) if size > 0 else end
    if 0 <= seam < changed:
        changed = seam
    i, j, done = changed, 0, 0
    seam, past = -1, -1
    # What was put out last: -2 touches nothing.
    before, before_rank = np.int64(-2), np.int64(0)
    if changed > begin:
        before, before_rank = last[changed - 1], rank[changed - 1]
    # a is in hand; b and c are the least of what is left of the old ones and of the new ones.
    a0, a1, ar, of_new = np.int64(-3), np.int64(-3), np.int64(0), False
    b0, b1, br = first[i], last[i], rank[i]
    c0, c1, cr = new_first[0], new_last[0], new_rank[0]
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
                        seam = changed + done - 1 if seam < 0 else seam
                        past = changed + done
                    before, before_rank = a1, ar
                    out_first[done], out_last[done], out_rank[done] = a0, a1, ar
                    done += 1
                    # A whole old batch, all new ones used, and no seam ahead: the rest stays.
                    rest = not is_new and j == size and i >= seam_end and b0 == first[i]
                    if x0 == GREATEST or rest:
                        return changed, i, done, seam, past
                elif x0 == GREATEST:
                    return changed, i, done, seam, past
                a0, a1, ar, of_new = x0, x1, xr, is_new
        elif xr == ar:
            if x1 > a1:
                a1, of_new = x1, is_new
        elif xr < ar:
            if x1 > a1:
                # What passes the end of a is the least that is left of its list.
                x0, keeps = a1 + 1, True
        else:
            if x0 > a0:
                if a0 == before + 1 and ar == before_rank:
                    seam = changed + done - 1 if seam < 0 else seam
                    past = changed + done
                before, before_rank = x0 - 1, ar
                out_first[done], out_last[done], out_rank[done] = a0, x0 - 1, ar
                done += 1
            if x1 < a1:
                # What passes the end of b goes back to the list that the end of a is of.
                if of_new:
                    j -= 1
                    c0, c1, cr = x1 + 1, a1, ar
                else:
                    i -= 1
                    b0, b1, br = x1 + 1, a1, ar
            a0, a1, ar, of_new = x0, x1, xr, is_new
        if keeps:
            if is_new:
                c0 = x0
            else:
                b0 = x0
        elif is_new:
            j += 1
            c0, c1, cr = new_first[j], new_last[j], new_rank[j]
        else:
            i += 1
            b0, b1, br = first[i], last[i], rank[i]


@kernel
def _first_reaching(last: Any, begin: int, end: int, offset: int) -> int:
    while begin < end:
        middle = (begin + end) >> 1
        if last[middle] < offset:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def splice(rows: Any, changed: int, unchanged: int, end: int, size: int) -> int:
    """Replace what `merge_rows` says is changed; return where the list then ends."""
    shift = changed + size - unchanged
    for part in range(3):
        column, piece = rows[part], rows[OUT + part]
        if shift > 0:
            for i in range(end - 1, unchanged - 1, -1):
                column[i + shift] = column[i]
        elif shift < 0:
            for i in range(unchanged, end):
                column[i + shift] = column[i]
        for i in range(size):
            column[changed + i] = piece[i]
    return end + shift


@kernel
def combine_any(rows: Any, begin: int, end: int, start: int) -> Any:
    """Combine lists of any kind by `combine_rows`; return them as it does, and how many; or -1."""
    matrix = np.empty((2 * (end - begin) + 2, 4), np.int64)
    for i in range(begin, end):
        matrix[i - begin, FIRST], matrix[i - begin, LAST] = rows[FIRST, i], rows[LAST, i]
        matrix[i - begin, COUNT] = count_of(rows[RANK, i])
        matrix[i - begin, STATE] = state_of(rows[RANK, i])
    return matrix, combine_rows(matrix, end - begin, start)


@kernel
def from_matrix(matrix: Any, n: int, rows: Any) -> None:
    """Write batches of the form that `combine_rows` works on."""
    for i in range(n):
        rows[FIRST, i], rows[LAST, i] = matrix[i, FIRST], matrix[i, LAST]
        rows[RANK, i] = rank_of(matrix[i, STATE], matrix[i, COUNT])
