"""Tables from a broker's request log and from the output of consumers."""

from __future__ import annotations

import pyarrow as pa

from sharelag.tables.declared.lag import OF_RUN
from sharelag.tables.table import INSTANT, Column, Own, Table, declare, view
from sharelag.tables.table import Format as F

#: The position of a line, and the time at which its request took effect at the broker. Times are
#: derived from the completion time in the log, in milliseconds, and the durations of the request's
#: parts: they have microseconds, and are accurate to about one millisecond.
_AT = Own("timestamp", type=INSTANT)
_LINE = (Own("source", "file that it was read from"), "position broker", _AT)

declare(
    Column("error_code", F.ORDINAL, "Kafka's number of the error; 0: none", "ERROR",
           type=pa.int16()),
    Column("call", F.TEXT, "kind of call to a coordinator"),
)  # fmt: skip

REQUESTS = Table(
    "requests", "a completed request about share groups",
    "source",
    Column("position", F.COUNT, "byte of the file at which the line begins"),
    "broker",
    Own("timestamp", "when it was completed", type=INSTANT),
    Column("began", F.TIME, "when the broker had received the request", type=INSTANT),
    Column("api", F.TEXT, "kind of request, as Kafka's message schemas call it"),
    Column("api_version", F.ORDINAL, "version of the request", "VERSION", type=pa.int16()),
    "client_id",
    Column("connection", F.TEXT, "addresses of broker and client"),
    Own("group_id", "share group; null: it names none, or several"),
    "member_id",
    Column("session_epoch", F.ORDINAL, "0 opens a share session, -1 closes it"),
    Own("error_code", "error of the whole response; null if it has none"),
    Column("session_id", F.ORDINAL, "share session, which a draft has instead of a member"),
    "legacy",
    view="timestamp api api_version group_id member_id session_epoch error_code",
)  # fmt: skip

ACQUISITIONS = Table(
    "acquisitions", "a run of offsets that a member acquired by a fetch",
    *_LINE,
    "group_id topic_id partition member_id first_offset",
    Column("last_offset", F.OFFSET, "last offset"),
    Column("delivery_count", F.COUNT, "how often it was delivered to a consumer; not known where "
           "no state is persisted", type=pa.int16()),
    Column("lock_ms", F.DURATION, "how long the lock was granted for; null: not known", "LOCK",
           type=pa.int32()),
    view=view("timestamp group_id topic_id partition first_offset last_offset member_id "
              "delivery_count lock_ms", OF_RUN),
)  # fmt: skip

ACKNOWLEDGEMENTS = Table(
    "acknowledgements", "a run of offsets that a member acknowledged in one way",
    *_LINE,
    "group_id topic_id partition member_id first_offset last_offset",
    Column("acknowledge_type", F.ORDINAL, "0 gap, 1 accept, 2 release, 3 reject, 4 renew; of a "
           "draft's 0 to 2", type=pa.int16()),
    Column("acknowledge_word", F.TEXT, "accept, release, reject, gap or renew, or unknown with "
           "what it says", "TYPE"),
    "api",
    Own("error_code", "Kafka's number of the error; 0: it took effect; null: not answered"),
    Own("lock_ms", "lock duration after a renewal; null: the response does not say"),
    "legacy",
    view=view("timestamp group_id topic_id partition first_offset last_offset member_id "
              "acknowledge_word api error_code", OF_RUN),
)  # fmt: skip

HEARTBEATS = Table(
    "heartbeats", "a heartbeat of a member",
    *_LINE,
    "group_id member_id",
    Own("member_epoch", "epoch in the request: 0 joins, -1 leaves"),
    "rack_id",
    Own("subscribed_topic_names", "topics that the member subscribes to; null: as before"),
    "error_code",
    Column("answered_epoch", F.ORDINAL, "member epoch in the answer", "ANSWERED"),
    Column("heartbeat_interval_ms", F.DURATION, "until the next heartbeat, as answered", "INTERVAL",
           type=pa.int32()),
    Own("assigned_partitions", "partitions in the response; null: as before; empty: none"),
    view="timestamp group_id member_id member_epoch answered_epoch error_code",
)  # fmt: skip

STATE_CALLS = Table(
    "state_calls", "a call of a broker to a share coordinator about one share partition",
    *_LINE,
    Own("call", "initialize, read, write, delete or summary"),
    "group_id topic_id partition state_epoch leader_epoch",
    Own("start_offset", "first offset of the window (SPSO); null: not known (-1)"),
    Own("delivery_complete_count", "null: not known (-1), or before version 1"),
    "state_batches error_code",
    view="timestamp call group_id topic_id partition state_epoch leader_epoch start_offset "
         "delivery_complete_count error_code",
)  # fmt: skip

OFFSET_CALLS = Table(
    "offset_calls",
    "a topic partition, topic or group of a request about offsets, or a deletion",
    *_LINE,
    Own("call", "describe offsets, alter offsets, delete offsets or delete group"),
    "group_id topic topic_id partition",
    Own("start_offset", "first offset of the window (SPSO); null: not known (-1)"),
    "leader_epoch",
    Own("lag", "as answered; null: not known (-1), or before version 1"),
    "error_code",
    Column("error_message", F.TEXT, "what the broker, or the exception, says about it"),
    view="timestamp call group_id topic partition start_offset lag error_code error_message",
)  # fmt: skip

DESCRIPTIONS = Table(
    "descriptions", "a share group as its coordinator described it",
    *_LINE,
    "group_id",
    Column("group_state", F.TEXT, "Empty, Stable or Dead", "STATE"),
    "group_epoch assignment_epoch",
    Column("assignor_name", F.TEXT, "assignor of the group", "ASSIGNOR"),
    "members",
    Column("authorized_operations", F.ORDINAL, "bits of the operations that the client may "
           "perform; null: not requested", "OPERATIONS"),
    "error_code",
    view="timestamp group_id group_state group_epoch assignment_epoch assignor_name members",
)  # fmt: skip

LISTINGS = Table(
    "listings",
    "a group as a coordinator listed it, or a coordinator that answered with an error",
    *_LINE,
    Own("group_id", "share group; null: the coordinator could not list its groups"),
    Own("type", "Share, Consumer, Classic or Streams; null: the client is older"),
    "group_state error_code",
    view="timestamp broker group_id type group_state error_code",
)  # fmt: skip

SESSION_PARTITIONS = Table(
    "session_partitions",
    "a partition that a ShareFetch adds to its share session, or forgets",
    *_LINE,
    "group_id topic_id partition member_id session_epoch",
    Column("forgotten", F.FLAG, "true: the session does not have the partition any more; false: "
           "it has it"),
    view="timestamp broker group_id topic_id partition member_id session_epoch forgotten",
)  # fmt: skip

DESCRIBED_MEMBERS = Table(
    "described_members", "a member of a group as its coordinator described it",
    *_LINE,
    "group_id member_id client_id client_host rack_id member_epoch subscribed_topic_names",
    "assigned_partitions",
    view="timestamp group_id member_id client_id client_host rack_id member_epoch "
         "assigned_partitions",
)  # fmt: skip

CURRENT_LEADERS = Table(
    "current_leaders",
    "a partition that a member requested from the wrong broker, which named the leader",
    *_LINE,
    "group_id topic_id partition member_id",
    Own("leader_id", "broker that leads; null: the broker did not know it (-1)"),
    Own("current_leader_epoch", "epoch of that leader; null: the broker did not know it"),
    "api",
    Own("error_code", "NOT_LEADER_OR_FOLLOWER (6) or FENCED_LEADER_EPOCH (74)"),
    view="timestamp group_id topic_id partition member_id broker leader_id "
         "current_leader_epoch error_code",
)  # fmt: skip

LINE_REJECTS = Table(
    "rejects", "a line that looks like a request but cannot be read",
    "source position",
    _AT,
    "reason",
    Column("text", F.TEXT, "the line"),
    view="timestamp source position reason",
)  # fmt: skip

HOLDS = Table(
    "holds", "a run of offsets that a member held locked, and how that ended",
    "group_id topic_id partition member_id first_offset last_offset delivery_count",
    Own("since", type=INSTANT),
    Column("locked_until", F.TIME, "when the lock expires, renewals included; null: not known",
           type=INSTANT),
    Column("until", F.TIME, "when it ended; null: not before the end of the log", type=INSTANT),
    Column("ended_by", F.TEXT, "accept, release, reject, gap, lock expired, session closed, "
           "acquired again, state written or leader changed; of a member left, removed, joined "
           "again or changed; of a session forgotten, session closed or session opened anew"),
    view=view("group_id topic_id partition first_offset last_offset member_id delivery_count since "
              "until ended_by", OF_RUN),
)  # fmt: skip

HOLDERS = Table(
    "held", "a run of unfinished offsets, and who holds it as of one moment",
    "group_id topic_id partition first_offset last_offset",
    Column("lock_state", F.TEXT, "acquired, or never delivered"),
    Own("member_id", "who holds them; null: nobody"),
    Own("since", type=INSTANT),
    "locked_until delivery_count",
    view=view("group_id topic_id partition first_offset last_offset member_id delivery_count since "
              "locked_until", OF_RUN),
)  # fmt: skip

REQUEST_FINDINGS = Table(
    "findings", "something that Kafka's rules do not allow, or that is worth a look",
    "finding group_id topic_id partition member_id",
    _AT,
    "summary",
    view="timestamp finding group_id member_id topic_id partition summary",
)  # fmt: skip

REQUEST_ERRORS = Table(
    "errors", "an error in the responses to requests of one kind and group",
    Own("group_id", "share group; null: the requests name none"),
    "api error_code",
    Column("error_name", F.TEXT, "Kafka's name of the error; null: none about share groups",
           "NAME"),
    Column("answers", F.COUNT, "how many responses had it; for acknowledgements, runs of offsets"),
    Column("first_answer", F.TIME, "when it first occurred", "FIRST", type=INSTANT),
    Column("last_answer", F.TIME, "when it last occurred", "LAST", type=INSTANT),
    Column("meaning", F.TEXT, "what happened"),
    "advice",
    view="group_id api error_code error_name answers first_answer last_answer meaning advice",
)  # fmt: skip

MEMBERSHIPS = Table(
    "memberships", "a member from one change to the next, by its heartbeats",
    "group_id member_id",
    Own("since", "null: the log has only its end", type=INSTANT),
    "until",
    Own("ended_by", "left, removed (its heartbeat was refused), joined again, or changed: its "
        "next row says how; null: it goes on where the log ends"),
    Own("joined", "null: before the log began", type=INSTANT),
    Own("member_epoch", "as answered"),
    "rack_id",
    Own("subscribed_topic_names", "topics that the member subscribes to; null: stated before the "
        "log began"),
    Own("assigned_partitions", "null: stated before the log began; empty: none"),
    Column("heartbeats", F.COUNT, "heartbeats without a change"),
    view="group_id member_id since until ended_by member_epoch subscribed_topic_names "
         "assigned_partitions heartbeats",
)  # fmt: skip

SESSIONS = Table(
    "sessions", "a partition of a member's share session with a broker, from when to when",
    "broker group_id topic_id partition member_id",
    Own("since", "for a session that began before the log: when it was first named", type=INSTANT),
    "until",
    Own("ended_by", "forgotten, session closed or session opened anew"),
    view="group_id member_id broker topic_id partition since until ended_by",
)  # fmt: skip

BATCHING = Table(
    "batching", "a member of a share partition, and whether it acknowledges whole acquired runs",
    "group_id topic_id partition member_id",
    Column("acquired_runs", F.COUNT, "runs of offsets that the member acquired", "ACQUIRED"),
    Column("acquired_offsets", F.OFFSETS, "offsets in them"),
    Column("acknowledged_runs", F.COUNT, "runs that the member acknowledged, without renewals and "
           "refused ones", "ACKNOWLEDGED"),
    Column("acknowledged_offsets", F.OFFSETS, "offsets in them"),
    Column("whole_runs", F.COUNT, "acknowledged runs that begin and end where acquired runs do",
           "WHOLE"),
    Column("whole_ratio", F.RATIO, "whole runs / acknowledged runs; null: none was acknowledged",
           "RATIO"),
    view="group_id topic_id partition member_id acquired_runs acquired_offsets "
         "acknowledged_runs acknowledged_offsets whole_runs whole_ratio",
)  # fmt: skip

DELIVERIES = Table(
    "deliveries", "a record that was delivered to a consumer",
    "source position",
    Own("timestamp", "the record's own time, or when it was consumed; null: not printed",
        type=INSTANT),
    Own("topic", "name of the topic; null: console consumers do not print it"),
    Own("partition", "partition of the topic; null: not printed"),
    "offset",
    Own("delivery_count", "null: not printed, or by a consumer group, which counts none"),
    view="timestamp topic partition offset delivery_count",
)  # fmt: skip

OUTCOMES = Table(
    "outcomes", "a run of offsets whose acknowledgement was reported to a consumer's callback",
    "source position",
    Own("timestamp", "when the callback was called", type=INSTANT),
    "topic partition first_offset last_offset",
    Column("succeeded", F.FLAG, "false: the acknowledgement failed and does not count"),
    "error_message",
    view=view("timestamp topic partition first_offset last_offset succeeded error_message", OF_RUN),
)  # fmt: skip

#: The text of such a line may contain a payload, so it is not stored.
OUTPUT_REJECTS = Table(
    "rejects", "a line that looks like an event but cannot be read",
    "source position reason",
    view="source position reason",
)  # fmt: skip

#: Tables parsed directly from the lines of a request log.
OF_LINES = (
    *(REQUESTS, ACQUISITIONS, ACKNOWLEDGEMENTS, HEARTBEATS, STATE_CALLS, OFFSET_CALLS),
    *(DESCRIPTIONS, LISTINGS, SESSION_PARTITIONS, DESCRIBED_MEMBERS, CURRENT_LEADERS, LINE_REJECTS),
)
#: Tables derived from them.
WORKED_OUT = (*(HOLDERS, HOLDS, REQUEST_FINDINGS, REQUEST_ERRORS, MEMBERSHIPS, SESSIONS, BATCHING),)
#: Tables from the output of consumers.
CONSUMED = (DELIVERIES, OUTCOMES, OUTPUT_REJECTS)
