"""An input whose groups have members, as their records in ``__consumer_offsets`` say."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.wire import GROUP_KINDS, GROUP_TOPIC, encode_record
from tests.support.written_input import NOW, TOPIC_ID, WrittenInput

MEMBER, GROUP, TARGET_EPOCH, TARGET, CURRENT, TOPICS = GROUP_KINDS


@dataclass
class WithMembers(WrittenInput):
    """An input whose groups have the members that the given records say."""

    of_groups: tuple[tuple[Any, dict[str, Any]], ...] = ()

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        if topic != GROUP_TOPIC:
            yield from super().batches(topic)
            return
        place = {"topic": topic, "partition": 0, "timestamp": NOW, "timestampType": 0}
        encoded = (encode_record(kind, {"group_id": "billing"} | r) for kind, r in self.of_groups)
        rows = [{"key": k, "value": v, "offset": n, **place} for n, (k, v) in enumerate(encoded)]
        yield pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def joined(member: str, epoch: int, target: list[int], assigned: list[int]) -> list[Any]:
    """The records of one member."""
    who = {"member_id": member}
    client = {"rack_id": None, "client_id": "c", "client_host": "/h"}
    return [
        (MEMBER, who | client | {"subscribed_topic_names": ["orders"]}),
        (TARGET, who | {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": target}]}),
        (
            CURRENT,
            who
            | {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": 0}
            | {"assigned_partitions": [{"topic_id": TOPIC_ID, "partitions": assigned}]},
        ),
    ]
