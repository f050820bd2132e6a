"""Groups and members as Kafka's tools and its Admin client describe them."""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.records import TIMESTAMP
from sharelag.schemas.states import MEMBERS

#: The type of share groups, as ``kafka-groups.sh`` prints it (``GroupType.SHARE``).
SHARE = "Share"
#: One group. What does not come from a source of the row is null.
GROUP_STATES = pa.schema(
    [
        ("group_id", pa.string()),
        ("type", pa.string()),  # as Kafka calls it: Share, Consumer, Classic or Streams
        ("state", pa.string()),  # of `sharelag.model.group_state`; null: not known
        ("group_epoch", pa.int32()),
        ("assignment_epoch", pa.int32()),
        ("coordinator", pa.string()),  # as Kafka's command prints it: host:port (id)
        ("members", pa.int32()),
        ("topics", pa.int64()),  # with share partitions that have state
        ("partitions", pa.int64()),  # share partitions that have state
        ("lag", pa.int64()),  # the sum of those that are known
        ("unknown_lags", pa.int64()),  # share partitions whose lag is null
        ("emptied", TIMESTAMP),
        ("changed", TIMESTAMP),
        ("as_of", TIMESTAMP),  # of the lag
    ]
)

#: One member, with what its assignment amounts to.
MEMBER_ROWS = pa.schema(
    [
        *MEMBERS,
        ("assigned", pa.int64()),  # topic partitions
        ("assignment", pa.string()),  # as Kafka's command prints it: topic:0,1;other:2
    ]
)
