"""Decode raw Kafka records, and find the records that a DataFrame of the user's stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.engine.spark.packing import REPLAYED
from sharelag.engine.spark.tasks import Records, TaskRecords, is_written_by, origin_of, set_origin
from sharelag.errors import InputError
from sharelag.inputs.spark.frames import as_frame
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.model.versions import Told, require_version
from sharelag.replay.moment import Moment
from sharelag.tables.arrow import for_spark
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import require_generation

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular


class Decoded(NamedTuple):
    """Records and rejects of raw records; each of the two reads these when it is used."""

    records: DataFrame
    rejects: DataFrame


def decode(
    raw: Tabular,
    topic: str = STATE_TOPIC,
    generation: int | None = None,
    kafka_version: Told = None,
) -> Decoded:
    """Decode raw Kafka records from any connector, table or stream.

    Parameters
    ----------
    raw : DataFrame of Spark or pandas, or pyarrow.Table
        The columns of Spark's own Kafka source (`sharelag.schemas.RAW`); further ones are ignored.
        Rows of both topics may be mixed.
    topic : str
        ``__share_group_state``, or ``__consumer_offsets`` for the share groups' members and
        assignments.
    generation, kafka_version
        As for `sharelag.wire.decode_arrow`.

    Returns
    -------
    Decoded
        ``records`` as `sharelag.schemas.RECORDS` (or `GROUP_RECORDS`), ``rejects`` as
        `sharelag.schemas.REJECTS`. Records of other kinds are in neither.

    Raises
    ------
    InputError
        When a column is missing or of another type, or there is no such generation or version.

    Notes
    -----
    ``windows``, ``history``, ``members`` and the other functions of a state take ``raw`` itself.
    Given ``records`` as they are returned here, they read ``raw`` all the same, in one pass; given
    records that were filtered or stored, they read those.
    """
    raw = as_frame(raw, schemas.RAW, "raw records")
    require_generation(generation)
    require_version(kafka_version)
    good = schemas.RECORDS if topic == STATE_TOPIC else schemas.GROUP_RECORDS
    both = pa.schema([*good, *(f for f in schemas.REJECTS if f.name not in good.names)])

    def decode_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        decoded = decode_arrow(batch, topic, generation, kafka_version)
        yield decoded.records
        yield decoded.rejects

    rows = map_arrow(raw.select(schemas.RAW.names), decode_batch, both)
    is_reject = F.col("reason").isNotNull()
    records = rows.where(~is_reject).select(good.names)
    if topic in REPLAYED:
        origin = Records(raw, (topic,), generation, kafka_version=kafka_version)
        set_origin(records, origin)
    return Decoded(records, rows.where(is_reject).select(schemas.REJECTS.names))


def records_of(given: Tabular | Records, topic: str = STATE_TOPIC) -> Records:
    """Return the records of a topic, given raw, or decoded by `decode` or long ago.

    Columns that are missing or of another type are an InputError, and so is a stream.
    """
    if isinstance(given, Records):
        return given
    origin = origin_of(given)
    if isinstance(origin, Records):
        if origin.topics != (topic,):
            raise InputError(f"these are records of {origin.topics[0]}: give those of {topic}")
        found = origin
    elif is_raw(given):
        found = Records(as_frame(given, schemas.RAW, "raw records"), (topic,))
    else:
        what = "records" if topic == STATE_TOPIC else "group records"
        frame = as_frame(given, REPLAYED[topic], what)
        found = Records(frame, (topic,), decoded=True)
    if isinstance(found.source, DataFrame) and found.source.isStreaming:
        raise InputError(
            "the records are a stream: use sharelag.stream.windows and sharelag.stream.lag with "
            "writeStream, or give a table of the records"
        )
    return found


def is_raw(given: Tabular) -> bool:
    """Return whether records count as raw, by their columns: all that are not decoded do."""
    names = column_names(given)
    return "key" in names or "record_type" not in names


def column_names(given: Tabular) -> list[str]:
    """Return the names of the columns of a DataFrame or a table, none of what is neither."""
    if isinstance(given, pa.Table | pa.RecordBatch):
        return list(given.schema.names)
    columns: Any = getattr(given, "columns", None)
    if columns is None:  # what passes its rows on as Arrow
        columns = getattr(getattr(given, "schema", None), "names", ())
    return [str(name) for name in columns]


def select_records(
    records: DataFrame, as_of: Moment = None, groups: frozenset[str] = frozenset()
) -> DataFrame:
    """Return the decoded records of some groups (default all) written up to a moment."""
    records = records.where(F.col("group_id").isin(*groups)) if groups else records
    return records if as_of is None else records.where(is_written_by(as_of, "record_partition"))


def missing_offsets(raw: Tabular | Records) -> DataFrame:
    """Return `sharelag.schemas.GAPS`: offsets of the state topic missing between raw records.

    Parameters
    ----------
    raw : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.RAW`.
    """

    def find_gaps(records: TaskRecords) -> Iterator[pa.RecordBatch]:
        records.raw.apply(lambda batches: sum(1 for _ in batches))
        yield from records.raw.gaps.to_batches()

    return records_of(raw).map(find_gaps, schemas.GAPS)


def map_arrow(
    frame: DataFrame, each: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Apply a function to every Arrow batch; schema columns missing from its result are null."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for result in each(batch):
                if result.num_rows:
                    yield for_spark(result, schema)

    return map_in_arrow(frame, task, schema)
