"""Repeated raw records: a restarted sink writes some records twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.replay.columns import codes_of
from sharelag.schemas import Arrow, Ints
from sharelag.tables.arrow import as_table, changes, flat
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.interpreter import find_unplaced

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)
_T = TypeVar("_T")

#: The position of a record, which is unique in a cluster.
PLACE = ("topic", "partition", "offset")
#: Columns in which repeated records are equal.
_SAME = ("key", "value", "timestamp")
_ROW = "_row"
#: Rows of a batch of sorted records.
_SORTED_ROWS = 50_000


def drop_repeats(raw: _Rows) -> tuple[_Rows, int]:
    """Return raw records without repetitions, and how many were left out.

    ``raw`` has columns of `sharelag.schemas.RAW`, including `PLACE`: all records of some
    partitions, in any order. Key and value are compared if they are present; different records at
    one place are an InputError. If the offsets of each partition ascend, the records are returned
    unchanged; otherwise they are sorted by topic, partition and offset.
    """
    if LogOrder().continues(raw):
        return raw, 0
    topic, partition, offset = codes = _codes(raw)
    order = np.lexsort(codes[::-1])
    again = np.append(False, np.logical_and.reduce([np.diff(code[order]) == 0 for code in codes]))
    # a record without a place is never a repetition
    again &= (topic[order] >= 0) & (partition[order] >= 0) & (offset[order] >= 0)
    repeats = np.flatnonzero(again)
    _require_same(raw, order[repeats - 1], order[repeats])
    return raw.take(pa.array(order[~again])), len(repeats)


class LogOrder:
    """Checks whether batches of raw records are in log order, each record once."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}
        self._gaps = [schemas.GAPS.empty_table()]

    @property
    def gaps(self) -> pa.Table:
        """`sharelag.schemas.GAPS`: offsets that are missing between the records so far.

        The state topic has neither transaction markers nor compaction, so its offsets have no gaps
        unless records are missing.
        """
        return pa.concat_tables(self._gaps)

    def continues(self, raw: Arrow) -> bool:
        """Return whether offsets ascend in each partition, continuing earlier batches.

        If they do not, later results are meaningless. Records without a place are ignored, as no
        answer uses them.
        """
        unplaced = find_unplaced(raw, PLACE)
        if unplaced.any():
            raw = raw.filter(pa.array(~unplaced))
        if not raw.num_rows:
            return True
        topic, partition, offset = _codes(raw)
        code = (topic << 32) | partition
        rows = np.arange(len(code))
        if (code != code[0]).any():
            rows = np.argsort(code, kind="stable")
            code, offset = code[rows], offset[rows]
        begins = np.flatnonzero(changes(code))
        places = [
            (str(row["topic"]), int(row["partition"]))
            for row in raw.select(PLACE[:2]).take(pa.array(rows[begins])).to_pylist()
        ]
        before = np.append(-1, offset[:-1])
        before[begins] = [self._ends.get(place, -1) for place in places]
        if (offset <= before).any():
            return False
        self._ends.update(zip(places, offset[np.append(begins[1:], 0) - 1].tolist(), strict=True))
        lost = np.flatnonzero((offset > before + 1) & (before >= 0))
        if len(lost):
            found = as_table(raw.select(PLACE).take(pa.array(rows[lost])))
            first = pa.array(before[lost] + 1)
            columns = [*found.columns[:2], first, found.column("offset")]
            self._gaps.append(pa.table(columns, names=schemas.GAPS.names).cast(schemas.GAPS))
        return True


class NotInLogOrderError(Exception):
    """Raw records need to be sorted, or some of them repeat others."""


class EachOnce:
    """Raw records in log order, each once, regardless of the order in which they are read.

    ``read`` starts reading them again, batch by batch: all records of some partitions.
    """

    def __init__(self, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._read = read
        self._sorted: list[pa.RecordBatch] | None = None
        self._order = LogOrder()
        #: Number of repeated records, once all were read.
        self.repeated = 0

    @property
    def gaps(self) -> pa.Table:
        """`sharelag.schemas.GAPS` of the state topic, between the records read so far.

        In users' topics only control records are read, which have other records in between.
        """
        found = self._order.gaps
        return found.filter(pc.ends_with(found.column("topic"), STATE_TOPIC))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._order = LogOrder()
        for batch in self._read() if self._sorted is None else self._sorted:
            if not self._order.continues(batch):
                raise NotInLogOrderError
            yield batch

    def apply(self, work: Callable[[EachOnce], _T]) -> _T:
        """Apply a function to the records; again to all of them if they had to be sorted.

        Records that are read in order, as nearly all are, are never held together. Two different
        records at one place are an InputError.
        """
        with suppress(NotInLogOrderError):
            return work(self)
        kept, self.repeated = drop_repeats(pa.Table.from_batches(list(self._read())))
        self._sorted = kept.to_batches(max_chunksize=_SORTED_ROWS)
        return work(self)

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Yield the records in reading order, until one is out of order.

        The remaining ones then follow in log order.
        """
        passed = 0
        with suppress(NotInLogOrderError):
            for batch in self:
                yield batch
                passed += batch.num_rows
            return
        whole = pa.Table.from_batches(list(self._read()))
        rows = pa.array(np.arange(whole.num_rows))
        kept, self.repeated = drop_repeats(whole.append_column(_ROW, rows))
        rest = kept.filter(pc.greater_equal(kept.column(_ROW), passed)).drop_columns(_ROW)
        yield from rest.to_batches(max_chunksize=_SORTED_ROWS)


def _codes(raw: Arrow) -> list[Ints]:
    """Return numbers that sort like the columns of a place; -1 for null."""
    topic = flat(raw.column("topic"))
    codes = codes_of(topic.cast(pa.string()).fill_null(""))
    if topic.null_count:
        codes[~np.asarray(topic.is_valid().to_numpy(zero_copy_only=False))] = -1
    return [codes, *(codes_of(flat(raw.column(name))) for name in PLACE[1:])]


def _require_same(raw: Arrow, first: Ints, second: Ints) -> None:
    differ = np.zeros(len(first), bool)
    for name in (name for name in _SAME if name in raw.schema.names):
        one, other = (_plain(raw.column(name).take(pa.array(rows))) for rows in (first, second))
        same = pc.or_(
            pc.equal(one, other).fill_null(False), pc.and_(one.is_null(), other.is_null())
        )
        differ |= ~np.asarray(same.to_numpy(zero_copy_only=False))
    if differ.any():
        row = raw.slice(int(second[np.argmax(differ)]), 1).select(PLACE).to_pylist()[0]
        raise InputError(
            f"two different records are at offset {row['offset']} of partition {row['partition']} "
            f"of {row['topic']}: they come from two clusters, or from a topic that was deleted and "
            "created again. Give the records of one cluster, since its topic was created"
        )


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    found = flat(column)
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
