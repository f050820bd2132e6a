"""Offsets that do not get through: delivered often, given up, or pinning a start offset."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.model import DeliveryState
from sharelag.schemas import NAMED_SHARE_PARTITION
from sharelag.tables.views import view

#: Offsets that share a state and a delivery count.
SUSPECTS = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("state", pa.string()),  # available, archived, ..., or that none is persisted
        ("delivery_count", pa.int16()),  # null where no state is persisted
        # deliveries until the limit; null where nothing is left to deliver, or nobody knows
        ("left", pa.int16()),
        ("why", pa.string()),  # one or more of the words below
    ]
)
#: Instead of a state: a member holds the offset, or it is that of a transaction marker.
NOT_PERSISTED = "no state persisted"
#: Why offsets are listed.
OFTEN, GIVEN_UP, PINS = "delivered often", "archived", "pins the start offset"
#: What people are shown of them.
VIEW = view(
    "topic partition first_offset last_offset offsets state delivery_count left why",
    meanings={
        "first_offset": "first of the offsets that share a state and a delivery count",
        "state": "available: waits for another delivery; archived: rejected, or given up at the "
        f"limit; {NOT_PERSISTED}: a member holds it, or a transaction marker is there",
        "why": f"why it is listed; {PINS}: the start offset cannot pass before it is acknowledged "
        "or archived",
    },
)
_STATES = {int(state): state.name.lower() for state in DeliveryState}
_RUN = ("first_offset", "last_offset", "delivery_state", "delivery_count")


def suspects(windows: pa.Table, least: int, limit: int) -> pa.Table:
    """Offsets in windows that may not get through, those delivered most often first.

    Parameters
    ----------
    windows : pyarrow.Table
        `sharelag.schemas.WINDOWS` with ``topic`` beside.
    least : int
        Delivery count from which an offset that is not acknowledged is listed.
    limit : int
        ``share.delivery.count.limit``.

    Returns
    -------
    pyarrow.Table
        `SUSPECTS`; also what is archived, and what begins at the head of a window, at any delivery
        count. Of a head without a persisted state only the one offset that pins the start offset,
        and its delivery count is null.
    """
    runs = windows.column("runs").combine_chunks()
    flat, parents = pc.list_flatten(runs), pc.list_parent_indices(runs)
    first, last, states, counts = (pc.struct_field(flat, [name]) for name in _RUN)
    head = windows.column("effective_start_offset").combine_chunks()
    archived = pc.equal(states, int(DeliveryState.ARCHIVED))
    pins = pc.equal(first, head.take(parents)).fill_null(False)
    words = _words({PINS: pins, OFTEN: pc.greater_equal(counts, least), GIVEN_UP: archived})
    named = pa.array(list(_STATES.values())).take(
        pc.index_in(states.cast(pa.int64()), pa.array(list(_STATES)))
    )
    left = pc.max_element_wise(
        pc.subtract(pa.scalar(limit, pa.int64()), counts.cast(pa.int64())), 0
    )
    left = pc.if_else(archived, None, left)
    found = _rows(windows, parents, [first, last, named, counts, left, words])
    listed = pc.and_(pc.not_equal(words, ""), pc.not_equal(states, int(DeliveryState.ACKNOWLEDGED)))
    both = pa.concat_tables([found.filter(listed), _without_state(windows, first, parents, head)])
    return both.sort_by([("delivery_count", "descending"), ("offsets", "descending")])


def _words(reasons: Mapping[str, pa.Array]) -> pa.Array:
    """The reasons that hold, of each run."""
    words = list(reasons)
    sets = [
        ", ".join(word for n, word in enumerate(words) if chosen >> n & 1)
        for chosen in range(2 ** len(words))
    ]
    chosen = sum(
        holds.to_numpy(zero_copy_only=False).astype(np.int64) << n
        for n, holds in enumerate(reasons.values())
    )
    return pa.array(sets).take(pa.array(chosen))


def _without_state(
    windows: pa.Table, first: pa.Array, parents: pa.Array, head: pa.Array
) -> pa.Table:
    """The offset at the head of each window where no run begins but runs follow."""
    begun = pc.is_in(
        pa.array(range(len(windows)), pa.int64()),
        parents.filter(pc.equal(first, head.take(parents))),
    )
    goes_on = pc.less(head, windows.column("window_end_offset").combine_chunks())
    rows = pc.indices_nonzero(pc.and_(goes_on, pc.invert(begun)).fill_null(False)).cast(pa.int64())
    at = head.take(rows)
    unknown = pa.nulls(len(rows), pa.int64())
    state, why = (pa.repeat(words, len(rows)) for words in (NOT_PERSISTED, PINS))
    return _rows(windows, rows, [at, at, state, unknown, unknown, why])


def _rows(windows: pa.Table, parents: pa.Array, columns: list[pa.Array]) -> pa.Table:
    """The columns of `SUSPECTS` from ``first_offset`` on, beside the names of their windows."""
    first, last, *others = columns
    rows = windows.select(SUSPECTS.names[:4]).take(parents)
    made = [*rows.columns, first, last, pc.add(pc.subtract(last, first), 1), *others]
    return pa.table(made, names=SUSPECTS.names).cast(SUSPECTS)
