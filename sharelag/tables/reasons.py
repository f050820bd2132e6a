"""Codes and texts of why a lag is unknown, and of other notes about a row of lag."""

from __future__ import annotations

# Why a lag is null: the first that applies.
NO_START_OFFSET = "no_start_offset"  # initialised, but nothing was fetched yet
RECORDS_MISSING = "records_missing"  # no snapshot was read, so the state is not known
NO_COMPLETE_COUNT = "no_delivery_complete_count"  # last written by a broker before 4.2, or reset
UNKNOWN_TOPIC = "unknown_topic"  # no offsets: deleted, not authorized, or not captured
NO_END_OFFSET = "no_end_offset"  # the partition's leader did not answer
NO_END_OFFSET_THEN = "no_end_offset_then"  # the end is known only for another moment
NEGATIVE_LAG = "negative_lag"  # the start is beyond the end, or the end is older than the state
REASONS = {
    NO_START_OFFSET: "no record was fetched yet, so the start offset is unknown",
    RECORDS_MISSING: (
        "records of the state topic are missing: there was no snapshot of the share partition yet"
    ),
    NO_COMPLETE_COUNT: (
        "no delivery complete count yet (broker before 4.2, or no write since a reset); the column "
        "effective_lag, counted from the state batches, needs none"
    ),
    UNKNOWN_TOPIC: "no offsets for this topic id: topic deleted, not authorized or not captured",
    NO_END_OFFSET: "the end offset could not be read from the partition's leader",
    NO_END_OFFSET_THEN: "the end offset at that moment is unknown",
    NEGATIVE_LAG: (
        "the start offset is beyond the end of the log, or the end offset is older than the state"
    ),
}
# Other notes about a row.
START_BELOW_LOG_START = "start_below_log_start"  # records were deleted; Kafka still counts them
COUNT_DIFFERS = "count_differs"  # the delivery complete count differs from the batches
PARTIAL_STATE = "partial_state"  # no snapshot: epochs, timestamps and older batches are missing
ARCHIVING = "archiving"  # some of the unknown offsets are on their way to a dead-letter queue
REJECTED_RECORDS = "rejected_records"  # records of this share partition could not be replayed
NOTES = {
    START_BELOW_LOG_START: "records below the log start were deleted; Kafka still counts them",
    COUNT_DIFFERS: "the delivery complete count differs from the state batches' finished offsets",
    PARTIAL_STATE: "no snapshot of this share partition was among the records",
    ARCHIVING: (
        "some of the unknown offsets are on their way to a dead-letter queue: sharelag windows "
        "shows which"
    ),
    REJECTED_RECORDS: "some records of this share partition could not be replayed",
}

# ---- why there may be no records at all
KAFKA_SETTING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
KAFKA_SOURCE = (
    "Spark's own Kafka source leaves out internal topics, __share_group_state and "
    f"__consumer_offsets among them, where the session does not set {KAFKA_SETTING} to true: set "
    "it, or read them with sharelag.read_kafka"
)
