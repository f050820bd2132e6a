"""Which offsets were delivered again and again? Runs of windows, as rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.model import DeliveryState

#: Offsets that share a state and a delivery count.
SUSPECTS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("state", pa.string()),  # available, archived, ...
        ("delivery_count", pa.int16()),
        ("left", pa.int16()),  # deliveries until the limit; null where nothing is left to deliver
    ]
)
_STATES = {int(state): state.name.lower() for state in DeliveryState}
#: Finished well: nothing to look for.
_FINE = int(DeliveryState.ACKNOWLEDGED)


def suspects(windows: pa.Table, least: int, limit: int) -> pa.Table:
    """Offsets in windows that were delivered at least so often, the most often first.

    Parameters
    ----------
    windows : pyarrow.Table
        `sharelag.schemas.WINDOWS` with ``topic`` beside.
    least : int
        Delivery count.
    limit : int
        ``share.delivery.count.limit``.

    Returns
    -------
    pyarrow.Table
        `SUSPECTS`; acknowledged offsets are not among them.
    """
    runs = windows.column("runs").combine_chunks()
    flat, parents = pc.list_flatten(runs), pc.list_parent_indices(runs)
    columns = {name: pc.struct_field(flat, [name]) for name in ("first_offset", "last_offset", "delivery_state")}
    counts = pc.struct_field(flat, ["delivery_count"])
    keep = pc.and_(pc.greater_equal(counts, least), pc.not_equal(columns["delivery_state"], _FINE))
    states, counts = columns["delivery_state"].filter(keep).cast(pa.int64()), counts.filter(keep)
    first, last = columns["first_offset"].filter(keep), columns["last_offset"].filter(keep)
    names = pc.index_in(states, pa.array(list(_STATES), pa.int64()))
    waiting = pc.not_equal(states, int(DeliveryState.ARCHIVED))
    left = pc.max_element_wise(pc.subtract(pa.scalar(limit, pa.int64()), counts.cast(pa.int64())), 0)
    rows = windows.select(SUSPECTS.names[:4]).take(parents.filter(keep))
    made = {
        **{name: rows.column(name) for name in rows.column_names},
        "first_offset": first,
        "last_offset": last,
        "offsets": pc.add(pc.subtract(last, first), 1),
        "state": pa.array(list(_STATES.values())).take(names),
        "delivery_count": counts,
        "left": pc.if_else(waiting, left, None),
    }
    table = pa.table({field.name: made[field.name] for field in SUSPECTS}).cast(SUSPECTS)
    return table.sort_by([("delivery_count", "descending"), ("offsets", "descending")])
