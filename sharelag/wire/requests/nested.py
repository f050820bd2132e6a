"""Lists of structs as columns: rows of what a request nests, with the request that each is of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


class Nested(NamedTuple):
    """Items of all requests in their order."""

    row: pa.Array  # the request that an item is of
    items: pa.Array

    def of(self, name: str) -> pa.Array:
        """Return a field of each item."""
        return pc.struct_field(self.items, name)

    def into(self, name: str) -> tuple[pa.Array, Nested]:
        """Return the items of a list in each item, and which item each is of."""
        lists = self.of(name)
        parent = pc.list_parent_indices(lists)
        return parent, Nested(self.row.take(parent), pc.list_flatten(lists))


class Placed(NamedTuple):
    """Partitions of all requests, with their topics."""

    topic: pa.Array
    partitions: Nested


def all_of(bodies: pa.Array) -> Nested:
    """Requests or answers themselves as items."""
    return Nested(pa.array(np.arange(len(bodies))), bodies)


def placed(bodies: Nested, topics: str = "topics", topic: str = "topicId") -> Placed:
    """Partitions of the topics of requests or answers."""
    _, found = bodies.into(topics)
    parent, partitions = found.into("partitions")
    return Placed(found.of(topic).take(parent), partitions)


def keys_of(at: Placed, partition: str) -> pa.Array:
    """Return one text a partition, for a look-up in the answer to the same request."""
    columns = (at.partitions.row, at.topic, at.partitions.of(partition))
    texts = [pc.coalesce(column.cast(pa.string()), "") for column in columns]
    return pc.binary_join_element_wise(*texts, ":")


def spread(first: pa.Array, types: pa.Array) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
    """Give each offset of a batch its type, then join neighbours of one type.

    Parameters
    ----------
    first : pyarrow.Array
        The first offset of each batch; null where the line does not say it.
    types : pyarrow.ListArray
        One type an offset.

    Returns
    -------
    tuple
        The batch of each run, its first and last offsets as a struct, and its type.
    """
    batch = pc.list_parent_indices(types).to_numpy(zero_copy_only=False).astype(np.int64)
    values = pc.list_flatten(types)
    if not len(batch):
        return batch, pa.array([], _RUN), values
    number = np.arange(len(batch))
    starts = np.searchsorted(batch, batch)
    at = pc.fill_null(first, 0).to_numpy(zero_copy_only=False)[batch] + number - starts
    unknown = np.asarray(first.is_null().to_numpy(zero_copy_only=False), bool)[batch]
    kinds = values.to_numpy(zero_copy_only=False)
    begins = np.flatnonzero(
        np.concatenate([[True], (batch[1:] != batch[:-1]) | (kinds[1:] != kinds[:-1])])
    )
    ends = np.concatenate([begins[1:] - 1, [len(batch) - 1]])
    sides = [pa.array(at[side], mask=unknown[side]) for side in (begins, ends)]
    runs = pa.StructArray.from_arrays(sides, fields=list(_RUN))
    return batch[begins], runs, values.take(pa.array(begins))


_RUN = pa.struct([("first", pa.int64()), ("last", pa.int64())])
