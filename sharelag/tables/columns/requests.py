"""Columns of what a broker's log of requests tells."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "position": Column(Format.COUNT, "byte of the file at which the line begins"),
    "broker": Column(Format.TEXT, "address of the broker that answered"),
    "began": Column(Format.TIME, "when the broker had received the request"),
    "api": Column(Format.TEXT, "kind of request, as Kafka's message schemas call it"),
    "api_version": Column(Format.ORDINAL, "version of the request", "VERSION"),
    "connection": Column(Format.TEXT, "addresses of broker and client"),
    "session_epoch": Column(Format.ORDINAL, "0 opens a share session, -1 closes it"),
    "error_name": Column(
        Format.TEXT, "Kafka's name of the error; null: none about share groups", "NAME"
    ),
    "answers": Column(
        Format.COUNT, "how many answers had it; of acknowledgements, runs of offsets"
    ),
    "first_answer": Column(Format.TIME, "when it came first", "FIRST"),
    "last_answer": Column(Format.TIME, "when it came last", "LAST"),
    "meaning": Column(Format.TEXT, "what happened", "MEANING"),
    "error_code": Column(Format.ORDINAL, "Kafka's number of the error; 0: none", "ERROR"),
    "error_message": Column(Format.TEXT, "what the broker, or the exception, says of it"),
    "succeeded": Column(Format.FLAG, "false: the acknowledgement failed and does not count"),
    "lock_ms": Column(Format.DURATION, "for how long the lock was given; null: not known", "LOCK"),
    "acknowledge_type": Column(
        Format.ORDINAL, "0 gap, 1 accept, 2 release, 3 reject, 4 renew; of a draft's 0 to 2"
    ),
    "acknowledge_word": Column(
        Format.TEXT, "accept, release, reject, gap or renew, or unknown with what it says", "TYPE"
    ),
    "session_id": Column(Format.ORDINAL, "share session, in a draft's place of a member"),
    "answered_epoch": Column(Format.ORDINAL, "member epoch in the answer", "ANSWERED"),
    "heartbeat_interval_ms": Column(
        Format.DURATION, "until the next heartbeat, as answered", "INTERVAL"
    ),
    "call": Column(Format.TEXT, "kind of call to a coordinator"),
    "group_state": Column(Format.TEXT, "Empty, Stable or Dead", "STATE"),
    "authorized_operations": Column(
        Format.ORDINAL, "bits of what the client may do; null: it did not ask", "OPERATIONS"
    ),
    "assignor_name": Column(Format.TEXT, "assignor of the group", "ASSIGNOR"),
    "text": Column(Format.TEXT, "the line"),
    "lock_state": Column(Format.TEXT, "acquired, or never delivered"),
    "locked_until": Column(
        Format.TIME, "when the lock expires, renewals included; null: not known"
    ),
    "until": Column(Format.TIME, "when it ended; null: it goes on where the log ends"),
    "ended_by": Column(
        Format.TEXT,
        "accept, release, reject, gap, lock expired, session closed, acquired again, state "
        "written or leader changed; of a member left, removed, joined again or changed; "
        "of a session forgotten, session closed or session opened anew",
    ),
    "forgotten": Column(
        Format.FLAG, "true: the session does not have the partition any more; false: it has it"
    ),
    "heartbeats": Column(Format.COUNT, "heartbeats without a change"),
    "acquired_runs": Column(Format.COUNT, "runs of offsets that the member acquired", "ACQUIRED"),
    "acquired_offsets": Column(Format.OFFSETS, "offsets in them"),
    "acknowledged_runs": Column(
        Format.COUNT,
        "runs that the member acknowledged, without renewals and what was refused",
        "ACKNOWLEDGED",
    ),
    "acknowledged_offsets": Column(Format.OFFSETS, "offsets in them"),
    "whole_runs": Column(
        Format.COUNT, "those among them that begin and end where acquired runs do", "WHOLE"
    ),
    "whole_ratio": Column(
        Format.RATIO, "whole runs of those acknowledged; null: none was acknowledged", "RATIO"
    ),
}
