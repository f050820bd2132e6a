"""Decode raw Kafka records: whole Arrow batches in, typed columns out.

No record is lost: ``rows in = records + rejects + skipped``. A record that cannot be decoded
becomes a reject with its position, its bytes and the reason; a record of another type (an offset
commit, a consumer group's metadata) is counted as skipped.
"""

from __future__ import annotations

from sharelag import schemas
from sharelag.compiled import is_worth_it
from sharelag.schemas import Arrow
from sharelag.wire.columns import decode_columns
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.interpreter import Decoded, interpret, of_topic, topic_mask

__all__ = ["Decoded", "decode_arrow", "of_topic", "topic_mask"]


def decode_arrow(batch: Arrow, topic: str = STATE_TOPIC) -> Decoded:
    """Decode the records of one of the two Kafka topics with share group metadata.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Columns of `sharelag.schemas.RAW`; rows of several topics may be mixed.
    topic : str
        ``__share_group_state`` gives `sharelag.schemas.RECORDS`, ``__consumer_offsets`` gives
        `sharelag.schemas.GROUP_RECORDS`. Rows of topics whose names do not end with this name are
        skipped.

    Returns
    -------
    Decoded
        The records and rejects keep the order of the input.

    Raises
    ------
    InputError
        When a column is missing or of another type.

    Notes
    -----
    Accepts and refuses the same records as Kafka 4.3.1's ``ShareCoordinatorRecordSerde`` and
    ``GroupCoordinatorRecordSerde``. Invalid UTF-8 is decoded as in Java, with U+FFFD in place of
    the bad bytes.
    """
    schemas.require(batch, schemas.RAW, "raw records")
    if topic == STATE_TOPIC and is_worth_it(batch.nbytes):
        columns = decode_columns(batch)
        return Decoded(columns.records(), columns.rejects, columns.skipped)
    return interpret(batch, topic)
