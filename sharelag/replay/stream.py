"""Final windows out of raw records: each batch is decoded and replayed while it is in the cache.

States stay from batch to batch, so memory is bounded by them and a batch, however long the stream
is. Where that cannot be done (records of a share partition out of order, in several state
partitions, of several topics or of older generations), or the records are too few to be worth
compiled kernels, they become tables first: the answer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import is_worth_it
from sharelag.model.versions import Told
from sharelag.replay.running import NotInOrderError, RunningStates
from sharelag.replay.state import latest, replay_arrow
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat
from sharelag.wire.columns import StateColumns, decode_columns
from sharelag.wire.decode import decode_arrow, has_older, of_state
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import TODAY, control_mask
from sharelag.wire.interpreter import of_topic

#: Leaves some rows of a batch that has the columns of a position and of a share partition.
Choose = Callable[[Arrow], Arrow]
_ROW = "_row"


class Latest(NamedTuple):
    """What is known after some raw records."""

    windows: pa.RecordBatch
    """`sharelag.schemas.WINDOWS`, sorted by group, topic id, partition."""
    records: int
    rejected: int
    first: int | None
    """When the first and the last of the records were written, in milliseconds."""
    last: int | None


def latest_windows(
    raw: Iterable[pa.RecordBatch],
    choose: Choose | None = None,
    generation: int | None = None,
    until: Choose | None = None,
    kafka_version: Told = None,
) -> Latest:
    """Return the state of every share partition after some records, and counts of these.

    Parameters
    ----------
    raw : iterable of pyarrow.RecordBatch
        `sharelag.schemas.RAW`; rows of other topics are left out. It may be read twice.
    choose : callable, optional
        Which of the records count. It sees a batch with the columns ``topic record_partition
        offset timestamp group_id topic_id partition`` among others, and returns some of its rows.
    generation : int, optional
        As for `sharelag.wire.decode_arrow`.
    until : callable, optional
        Which of the records had been written at the moment, in the same way; of these are the
        first and the last time, so that they are the same whichever groups are chosen.
    kafka_version : str or callable, optional
        Of the coordinator, as for `sharelag.replay.replay_arrow`.

    Raises
    ------
    TypeError
        For an iterator, of which a second reading would give nothing.
    """
    if isinstance(raw, Iterator):
        raise TypeError("raw records may be read twice: give an iterable that begins anew")
    if generation not in (None, TODAY):
        return _by_tables(raw, choose, generation, until, kafka_version)
    held: list[pa.RecordBatch] = []
    size = 0
    batches = iter(raw)
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if is_worth_it(size, count=False):  # counted when it is decoded
            try:
                whole = _chain(held, batches)
                return _streamed(whole, choose, generation, until, kafka_version)
            except NotInOrderError:
                return _by_tables(raw, choose, generation, until, kafka_version)
    return _by_tables(held, choose, generation, until, kafka_version)


def _chain(held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while held:
        yield held.pop(0)
    yield from rest


def _by_tables(
    raw: Iterable[pa.RecordBatch],
    choose: Choose | None,
    generation: int | None,
    until: Choose | None,
    kafka_version: Told,
) -> Latest:
    records = rejected = 0
    span = _Span()

    def chosen() -> Iterator[pa.RecordBatch]:
        nonlocal records, rejected
        for batch in raw:
            state = of_state(batch, generation)
            decoded = decode_arrow(state, STATE_TOPIC, generation, kafka_version)
            written = decoded.records if until is None else until(decoded.records)
            found = written if choose is None else choose(written)
            records, rejected = records + found.num_rows, rejected + decoded.rejects.num_rows
            span.add(written.column("timestamp"))
            yield found

    windows = replay_arrow(latest(chosen(), schemas.RECORDS), kafka_version)
    return Latest(windows, records, rejected, span.first, span.last)


def _streamed(
    raw: Iterable[pa.RecordBatch],
    choose: Choose | None,
    generation: int | None,
    until: Choose | None,
    kafka_version: Told,
) -> Latest:
    states, span = RunningStates(), _Span()
    records = rejected = 0
    for batch in raw:
        found = decode_columns(_of_one_topic(batch, generation), states.keys, kafka_version)
        if generation is None and has_older(found.strange):
            raise NotInOrderError
        written = _chosen(found, until)
        walk = written if choose is None else np.intersect1d(written, _chosen(found, choose))
        times = found.position["timestamp"]
        span.add(times if until is None else times.take(pa.array(written)))
        records, rejected = records + len(walk), rejected + found.rejects.num_rows
        if len(walk):
            states.apply(found, walk)
    return Latest(states.windows(kafka_version), records, rejected, span.first, span.last)


def _of_one_topic(batch: pa.RecordBatch, generation: int | None) -> Arrow:
    schemas.require(batch, schemas.RAW, "raw records")
    chosen = of_topic(batch, STATE_TOPIC)
    others = batch.num_rows - chosen.num_rows
    if others and generation is None and control_mask(batch).any():
        raise NotInOrderError
    return chosen


def _chosen(found: StateColumns, choose: Choose | None) -> NDArray[np.int64]:
    """Return the rows that count."""
    rows = np.arange(len(found.key))
    if choose is None:
        return rows
    names = found.keys.table().take(pa.array(found.key))
    columns = found.position | dict(zip(names.schema.names, names.columns, strict=True))
    chosen = choose(pa.RecordBatch.from_pydict(columns | {_ROW: pa.array(rows)}))
    return np.asarray(flat(chosen.column(_ROW)).to_numpy(), np.int64)


class _Span:
    """The first and the last of some times."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None

    def add(self, times: pa.Array) -> None:
        milliseconds = flat(times).cast(schemas.TIMESTAMP, safe=False)  # Spark has microseconds
        found = pc.min_max(milliseconds.view(pa.int64())).as_py()
        if found["min"] is not None:
            self.first = min(found["min"], found["min"] if self.first is None else self.first)
            self.last = max(found["max"], found["max"] if self.last is None else self.last)
