"""The same lag from elsewhere: Kafka's own command, and the records themselves."""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.records import NAMED_SHARE_PARTITION, TIMESTAMP

#: One line of what ``kafka-share-groups.sh --describe --offsets`` printed. Null where it printed a
#: dash.
DESCRIBED = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader_epoch", pa.int32()),  # with --verbose
        ("start_offset", pa.int64()),
        ("lag", pa.int64()),  # since 4.2
        ("as_of", TIMESTAMP),  # when it was printed; null: not known
    ]
)

#: One share partition: what the log holds at the offsets that are not finished. The five kinds add
#: up to ``unfinished``. Null where the start or end offset is not known, or the partition's leader
#: does not answer.
SCANNED = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        ("unfinished", pa.int64()),  # offsets, as in the effective lag
        ("records", pa.int64()),  # committed, or not part of a transaction
        # records at or beyond the last stable offset: an open transaction holds them
        ("undecided", pa.int64()),
        # records of aborted transactions: only read_uncommitted groups are given them
        ("aborted", pa.int64()),
        # transaction markers, and what compaction removed; the log does not say which
        ("no_record", pa.int64()),
        ("deleted", pa.int64()),  # below the log start by now
        ("last_stable_offset", pa.int64()),  # when the log was read
        ("as_of", TIMESTAMP),  # of the end offset
    ]
)

#: By how much a number differs from another one, for one reason; null: the reason is known, its
#: size is not.
DIFFERENCE = pa.struct([("number", pa.string()), ("reason", pa.string()), ("offsets", pa.int64())])

#: One share partition: its lag in five ways, and why they differ. See
#: ``sharelag.metrics.reconcile``.
RECONCILED = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),  # null: described by Kafka, but not among the lag
        ("partition", pa.int32()),
        ("described_lag", pa.int64()),  # as Kafka's command printed it
        ("lag", pa.int64()),  # end - start - count, recomputed
        # end - start: that of a consumer group that had committed the start offset
        ("naive_lag", pa.int64()),
        ("effective_lag", pa.int64()),  # unfinished offsets still in the log, by the batches
        # without transaction markers, aborted records and compacted offsets
        ("true_lag", pa.int64()),
        ("matches", pa.bool_()),  # whether Kafka's lag is the recomputed one; null: not described
        ("differences", pa.list_(DIFFERENCE)),
        ("as_of", TIMESTAMP),
    ]
)
