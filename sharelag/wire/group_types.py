"""Types of groups as a draft of KIP-932 had them: a field of ``ConsumerGroupMetadata``.

Kafka writes share groups as ``ShareGroupMetadata`` instead. The draft added the type to the value
of a consumer group's record, in its version 1, so software that knows only version 0 reads a
consumer group. The draft leaves the place of the field open: it is taken to follow the epoch.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import Arrow
from sharelag.tables.arrow import flat
from sharelag.wire import texts
from sharelag.wire.fields import GROUP_TOPIC
from sharelag.wire.interpreter import of_topic

CONSUMER, SHARE = "consumer", "share"
#: One record of a group with its type; both are null where the record is a tombstone.
GROUP_TYPES = pa.schema([("group_id", pa.string()), ("version", pa.int16()), ("type", pa.string())])

#: The key of a ``ConsumerGroupMetadata``: its number, and the length of the group's name.
_KEY, _KEY_BYTES = b"\x00\x03", 4
#: The value: its version and the epoch, then the type as a compact text.
_EPOCH_ENDS = 6
_TYPES = {b"\x00": CONSUMER, b"\x09consumer": CONSUMER, b"\x06share": SHARE}


# Arrow's slices need an end: without one, texts that are shorter than the beginning are an error.
_LONGEST, _LONGEST_NAME = max(map(len, _TYPES)), 2**15 - 1


def group_types(batch: Arrow) -> pa.Table:
    """Return the types of groups that ``ConsumerGroupMetadata`` records give, as `GROUP_TYPES`.

    One row is one record of the raw ones, in their order. Without a type, as in version 0, a group
    is a consumer group; a type that the draft does not have is null, as is what cannot be read.
    """
    mine = of_topic(batch, GROUP_TOPIC)
    keys = flat(mine.column("key")).cast(pa.binary())
    is_metadata = pc.starts_with(keys, _KEY).fill_null(False)
    keys, values = keys.filter(is_metadata), flat(mine.column("value")).filter(is_metadata)
    values = values.cast(pa.binary())
    whole = pc.and_(
        pc.equal(pc.subtract(pc.binary_length(keys), _KEY_BYTES), _shorts(keys, 2)),
        pc.or_kleene(values.is_null(), pc.greater_equal(pc.binary_length(values), _EPOCH_ENDS)),
    ).fill_null(False)
    keys, values = keys.filter(whole), values.filter(whole)
    version = _shorts(values, 0)
    rest = pc.binary_slice(values, _EPOCH_ENDS, _EPOCH_ENDS + _LONGEST)
    kind = pa.nulls(len(values), pa.string())
    for begin, name in _TYPES.items():
        kind = pc.if_else(pc.starts_with(rest, begin).fill_null(False), name, kind)
    kind = pc.if_else(pc.equal(version, 0), CONSUMER, kind)
    kind = pc.if_else(version.is_valid(), kind, None)
    names = texts.strings(pc.binary_slice(keys, _KEY_BYTES, _KEY_BYTES + _LONGEST_NAME))
    return pa.table([names, version, kind], schema=GROUP_TYPES)


def latest_types(found: list[pa.Table]) -> pa.Table:
    """Return the last record of each group that was not deleted, by the group's name."""
    every = pa.concat_tables([GROUP_TYPES.empty_table(), *found]).combine_chunks()
    keep_nulls = pc.ScalarAggregateOptions(skip_nulls=False)
    last = every.group_by("group_id", use_threads=False).aggregate(
        [(name, "last", keep_nulls) for name in ("version", "type")]
    )
    last = last.rename_columns(GROUP_TYPES.names).filter(last.column("version_last").is_valid())
    return last.sort_by("group_id")


def _shorts(values: pa.Array, at: int) -> pa.Array:
    """Return the big-endian int16 at a place of each; null where there is none."""
    pairs = pc.binary_slice(values, at, at + 2)
    there = pc.equal(pc.binary_length(pairs), 2).fill_null(False)
    filled = pc.if_else(there, pairs, b"\x00\x00").cast(pa.binary(2))
    size = 2 * len(filled)
    data = np.frombuffer(filled.buffers()[1] or b"", ">i2", size // 2, 2 * filled.offset)
    return pc.if_else(there, pa.array(data.astype(np.int16)), pa.scalar(None, pa.int16()))
