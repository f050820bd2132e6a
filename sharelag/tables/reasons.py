"""Why a lag is not known, and what else to know about a row of it: the codes, and their words."""

from __future__ import annotations

# Why a lag is null: the first that holds.
NO_START_OFFSET = (
    "no_start_offset"  # the share partition was initialised, and nothing was fetched yet
)
NO_COMPLETE_COUNT = (
    "no_delivery_complete_count"  # written by a broker before 4.2, or not written to since
)
UNKNOWN_TOPIC = (
    "unknown_topic"  # the topic id is not among the offsets: deleted, hidden, or not captured
)
NO_END_OFFSET = "no_end_offset"  # the partition's leader did not answer
NO_END_OFFSET_THEN = "no_end_offset_then"  # the end is known of another moment only
REASONS = {
    NO_START_OFFSET: "no record was fetched yet, so the start offset is not known",
    NO_COMPLETE_COUNT: "no delivery complete count yet (a broker before 4.2, or no write since a reset)",
    UNKNOWN_TOPIC: "no offsets for this topic id: the topic is deleted, hidden from us, or was not captured",
    NO_END_OFFSET: "the end offset could not be read from the partition's leader",
    NO_END_OFFSET_THEN: "the end offset of that moment is not known",
}
# What else to know about a row.
NEGATIVE_LAG = "negative_lag"  # the end offset is older than the state: 0 is shown
START_BELOW_LOG_START = (
    "start_below_log_start"  # records were deleted unread; Kafka's lag still counts them
)
COUNT_DIFFERS = "count_differs"  # the broker's complete count is not that of its batches
PARTIAL_STATE = (
    "partial_state"  # no snapshot seen: epochs, timestamps and older batches are missing
)
REJECTED_RECORDS = "rejected_records"  # records of this share partition could not be replayed
NOTES = {
    NEGATIVE_LAG: "the end offset is older than the state, so 0 is shown",
    START_BELOW_LOG_START: "records below the log start were deleted unread; Kafka's lag still counts them",
    COUNT_DIFFERS: "the broker's delivery complete count differs from the finished offsets in its batches",
    PARTIAL_STATE: "no snapshot of this share partition was among the records",
    REJECTED_RECORDS: "some records of this share partition could not be replayed",
}
