"""What a broker's log of requests tells: requests and their answers.

Times are worked out from the millisecond at which a request was completed, which the log has, and
the durations of its parts, so they are microseconds and true to about one millisecond.
"""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.records import SHARE_PARTITION_COLUMNS, STATE_BATCH, TOPIC_PARTITIONS

INSTANT = pa.timestamp("us", tz="UTC")
#: Where a line stands, and when what it says took effect at the broker.
_LINE = [
    ("source", pa.string()),  # the file
    ("position", pa.int64()),  # the byte of the file at which the line begins
    ("broker", pa.string()),  # its address, by the log's connections
    ("timestamp", INSTANT),
]

#: One completed request that is about share groups.
REQUESTS = pa.schema(
    [
        *_LINE,  # the moment at which it was completed
        ("began", INSTANT),  # when the broker had received it
        ("api", pa.string()),  # as Kafka's message schemas call it: ShareFetch
        ("api_version", pa.int16()),
        ("client_id", pa.string()),
        ("connection", pa.string()),
        ("group_id", pa.string()),  # null: it names none, or several
        ("member_id", pa.string()),
        ("session_epoch", pa.int32()),  # of ShareFetch and ShareAcknowledge
        ("error_code", pa.int16()),  # of the whole answer; null where it has none
        ("session_id", pa.int32()),  # in place of a member, in a draft of KIP-932
        ("legacy", pa.bool_()),  # true: the request has the form of that draft
    ]
)

#: One run of offsets that a member acquired by a fetch.
ACQUISITIONS = pa.schema(
    [
        *_LINE,
        *SHARE_PARTITION_COLUMNS,
        ("member_id", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("delivery_count", pa.int16()),
        ("lock_ms", pa.int32()),  # null: the answer does not say (before version 1)
    ]
)

#: What Kafka's numbers of acknowledgements mean.
ACKNOWLEDGE_WORDS = ("gap", "accept", "release", "reject", "renew")

#: One run of offsets that a member acknowledged in one way.
ACKNOWLEDGEMENTS = pa.schema(
    [
        *_LINE,
        *SHARE_PARTITION_COLUMNS,
        ("member_id", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("acknowledge_type", pa.int16()),  # the number; null: a word that has none
        ("acknowledge_word", pa.string()),  # what that means, of `legacy` rows to the draft
        ("api", pa.string()),  # ShareFetch or ShareAcknowledge
        ("error_code", pa.int16()),  # 0: it counts; null: the partition was not answered
        ("lock_ms", pa.int32()),  # from then on, of a renewal; null: the answer does not say
        ("legacy", pa.bool_()),  # of a draft of KIP-932, with a session in place of a member
    ]
)

#: One partition that a ShareFetch names: of its share session from then on, or forgotten.
SESSION_PARTITIONS = pa.schema(
    [
        *_LINE,
        *SHARE_PARTITION_COLUMNS,
        ("member_id", pa.string()),
        ("session_epoch", pa.int32()),
        ("forgotten", pa.bool_()),
    ]
)

#: One heartbeat of a member.
HEARTBEATS = pa.schema(
    [
        *_LINE,
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("member_epoch", pa.int32()),  # as asked: 0 joins, -1 leaves
        ("rack_id", pa.string()),
        ("subscribed_topic_names", pa.list_(pa.string())),  # null: as before
        ("error_code", pa.int16()),
        ("answered_epoch", pa.int32()),
        ("heartbeat_interval_ms", pa.int32()),
        ("assigned_partitions", TOPIC_PARTITIONS),  # null: as before; empty: none
    ]
)

#: What a broker asked of a share coordinator about one share partition.
STATE_CALLS = pa.schema(
    [
        *_LINE,
        ("call", pa.string()),  # initialize, read, write, delete, summary
        *SHARE_PARTITION_COLUMNS,
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),  # null: not known (-1)
        ("delivery_complete_count", pa.int32()),  # null: not known (-1), or before version 1
        ("state_batches", pa.list_(STATE_BATCH)),
        ("error_code", pa.int16()),
    ]
)

#: One topic partition, topic or group of a request about a group's offsets, or its deletion.
OFFSET_CALLS = pa.schema(
    [
        *_LINE,
        ("call", pa.string()),  # describe offsets, alter offsets, delete offsets, delete group
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("start_offset", pa.int64()),  # null: not known (-1)
        ("leader_epoch", pa.int32()),
        ("lag", pa.int64()),  # null: not known (-1), or before version 1
        ("error_code", pa.int16()),
        ("error_message", pa.string()),
    ]
)

#: One share group as the coordinator described it.
DESCRIPTIONS = pa.schema(
    [
        *_LINE,
        ("group_id", pa.string()),
        ("group_state", pa.string()),
        ("group_epoch", pa.int32()),
        ("assignment_epoch", pa.int32()),
        ("assignor_name", pa.string()),
        ("members", pa.int32()),
        ("authorized_operations", pa.int32()),  # as bits; null: not requested (-2147483648)
        ("error_code", pa.int16()),
    ]
)

#: One group as a coordinator listed it, or one coordinator that answered with an error.
LISTINGS = pa.schema(
    [
        *_LINE,
        ("group_id", pa.string()),  # null: the coordinator could not list its groups
        ("type", pa.string()),  # Share, Consumer, Classic or Streams; null: the client is older
        ("group_state", pa.string()),
        ("error_code", pa.int16()),
    ]
)

#: One member of a group as the coordinator described it.
DESCRIBED_MEMBERS = pa.schema(
    [
        *_LINE,
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rack_id", pa.string()),
        ("member_epoch", pa.int32()),
        ("subscribed_topic_names", pa.list_(pa.string())),
        ("assigned_partitions", TOPIC_PARTITIONS),
    ]
)

#: One partition that a member asked the wrong broker for, which named the leader.
CURRENT_LEADERS = pa.schema(
    [
        *_LINE,
        *SHARE_PARTITION_COLUMNS,
        ("member_id", pa.string()),
        ("leader_id", pa.int32()),  # null: that broker did not know it (-1)
        ("current_leader_epoch", pa.int32()),  # null: likewise
        ("api", pa.string()),  # ShareFetch or ShareAcknowledge
        # NOT_LEADER_OR_FOLLOWER (6) or FENCED_LEADER_EPOCH (74)
        ("error_code", pa.int16()),
    ]
)

#: One line that says that it is a request and cannot be read.
LINE_REJECTS = pa.schema(
    [*_LINE[:2], ("timestamp", INSTANT), ("reason", pa.string()), ("text", pa.string())]
)

#: One run of offsets that a member held locked, from when on, and how that ended.
HOLDS = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        ("member_id", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("delivery_count", pa.int16()),
        ("since", INSTANT),
        ("locked_until", INSTANT),  # renewals included; null: the log does not say
        ("until", INSTANT),  # null: the log does not show that it ended
        # accept, release, reject, gap, lock expired, session closed, acquired again, state
        # written, leader changed; null: as above
        ("ended_by", pa.string()),
    ]
)

#: A member from one change to the next, by its heartbeats.
MEMBERSHIPS = pa.schema(
    [
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("since", INSTANT),  # null: the log has nothing but its end
        ("until", INSTANT),  # null: the log does not show that it ended
        # left, removed (the coordinator refused its heartbeat), joined again, or changed: its next
        # row says how; null: as above
        ("ended_by", pa.string()),
        ("joined", INSTANT),  # null: before the log began
        ("member_epoch", pa.int32()),  # as answered
        ("rack_id", pa.string()),
        ("subscribed_topic_names", pa.list_(pa.string())),  # null: stated before the log began
        ("assigned_partitions", TOPIC_PARTITIONS),  # null: likewise; empty: none
        ("heartbeats", pa.int64()),
    ]
)

#: A partition that a share session of a member with a broker has, from when to when.
SESSIONS = pa.schema(
    [
        ("broker", pa.string()),
        *SHARE_PARTITION_COLUMNS,
        ("member_id", pa.string()),
        ("since", INSTANT),  # of a session that began before the log: when it was named first
        ("until", INSTANT),  # null: the log does not show that it ended
        ("ended_by", pa.string()),  # forgotten, session closed, session opened anew; null: as above
    ]
)

#: How much of what a member acquired at once it acknowledged at once.
BATCHING = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        ("member_id", pa.string()),
        ("acquired_runs", pa.int64()),
        ("acquired_offsets", pa.int64()),
        ("acknowledged_runs", pa.int64()),  # without renewals and what was refused
        ("acknowledged_offsets", pa.int64()),
        ("whole_runs", pa.int64()),  # of those acknowledged: they begin and end as acquired ones
        ("whole_ratio", pa.float64()),  # of those acknowledged; null: there are none
    ]
)

#: By name.
REQUEST_TABLES = {
    "requests": REQUESTS,
    "acquisitions": ACQUISITIONS,
    "acknowledgements": ACKNOWLEDGEMENTS,
    "heartbeats": HEARTBEATS,
    "state_calls": STATE_CALLS,
    "offset_calls": OFFSET_CALLS,
    "descriptions": DESCRIPTIONS,
    "listings": LISTINGS,
    "session_partitions": SESSION_PARTITIONS,
    "described_members": DESCRIBED_MEMBERS,
    "current_leaders": CURRENT_LEADERS,
    "rejects": LINE_REJECTS,
}

#: Something in a log of requests that Kafka's rules do not allow, or that deserves a look.
REQUEST_FINDINGS = pa.schema(
    [
        ("finding", pa.string()),
        *SHARE_PARTITION_COLUMNS,
        ("member_id", pa.string()),
        ("timestamp", INSTANT),
        ("summary", pa.string()),
    ]
)

#: The answers with one error to the requests of one kind and group.
REQUEST_ERRORS = pa.schema(
    [
        ("group_id", pa.string()),  # null: the requests name none
        ("api", pa.string()),
        ("error_code", pa.int16()),
        ("error_name", pa.string()),  # null: not one of Kafka's about share groups
        ("answers", pa.int64()),  # of acknowledgements: runs of offsets
        ("first_answer", INSTANT),
        ("last_answer", INSTANT),
        ("meaning", pa.string()),
        ("advice", pa.string()),
    ]
)

#: What a log of requests knows of offsets that are not finished, as of one moment.
HOLDERS = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("lock_state", pa.string()),  # acquired, or never delivered
        ("member_id", pa.string()),  # who holds them; null: nobody
        ("since", INSTANT),
        ("locked_until", INSTANT),  # null: the log does not say
        ("delivery_count", pa.int16()),
    ]
)
