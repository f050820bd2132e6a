"""Fetch all messages of the state topic and ignore them, as a separate program."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

_TOPIC = "__share_group_state"
#: The client settings of `sharelag`, which read fast and leave no trace.
_CLIENT = {
    "group.id": "benchmark",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "fetch.message.max.bytes": 4 << 20,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
    "queued.min.messages": 200_000,
}


def fetch(servers: str) -> Iterator[list[Message]]:
    """Yield the messages up to the current end."""
    client = Consumer({"bootstrap.servers": servers} | _CLIENT)
    count = len(client.list_topics(_TOPIC, 10).topics[_TOPIC].partitions)
    parts = [TopicPartition(_TOPIC, number, OFFSET_BEGINNING) for number in range(count)]
    left = sum(end - first for first, end in map(client.get_watermark_offsets, parts))
    client.assign(parts)
    while left > 0:
        found = client.consume(min(2_000, left), timeout=10)
        left -= len(found)
        yield found
    client.close()


if __name__ == "__main__":
    print(sum(map(len, fetch(sys.argv[1]))))
