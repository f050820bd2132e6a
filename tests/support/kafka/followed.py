"""What `capture --follow` has archived of the state topic, compared with the topic itself."""

import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from sharelag.inputs.files.archive import ArchiveInput
from sharelag.wire import STATE_TOPIC
from tests.support.command import sharelag_process
from tests.support.kafka.workload import end_offsets

#: Partition, offset, key and value.
Record = tuple[int, int, bytes | None, bytes | None]


class Compared(NamedTuple):
    """An archive beside the topic."""

    kept: int  # records that it has
    lost: int  # records of the topic that it lacks
    wrong: int  # records that it has otherwise than the topic, or twice


def in_topic(servers: str) -> set[Record]:
    """Return every record of the state topic, as a plain client reads them."""
    ends = {p: end for (_, p), end in end_offsets(servers, [STATE_TOPIC]).items()}
    settings = {"bootstrap.servers": servers, "group.id": "plain", "enable.auto.commit": False}
    reader = Consumer(settings)
    reader.assign([TopicPartition(STATE_TOPIC, p, OFFSET_BEGINNING) for p in ends])
    found: set[Record] = set()
    begun = time.monotonic()
    try:
        while any(
            at.offset < ends[at.partition]
            for at in reader.position(
                [TopicPartition(STATE_TOPIC, p) for p, n in ends.items() if n]
            )
        ):
            assert time.monotonic() - begun < 120
            for one in reader.consume(1000, timeout=0.5):
                assert one.error() is None
                found.add((one.partition() or 0, one.offset() or 0, one.key(), one.value()))
    finally:
        reader.close()
    return {one for one in found if one[1] < ends[one[0]]}


def in_archive(folder: Path) -> list[Record]:
    """Return every record of the state topic that an archive has."""
    table = pa.Table.from_batches(ArchiveInput(folder).batches(STATE_TOPIC))
    columns = [table.column(name).to_pylist() for name in ("partition", "offset", "key", "value")]
    return list(zip(*columns, strict=True))


def compared(expected: Collection[Record], there: Collection[Record], folder: Path) -> Compared:
    """Compare an archive with the topic.

    ``expected``: what it has to have. ``there``: what it may have. The topic may have pruned what
    the archive still has. ``folder``: the archive.
    """
    kept = in_archive(folder)
    of_topic = {one[:2]: one for one in there}
    begins: dict[int, int] = {}
    for partition, offset in of_topic:
        begins[partition] = min(begins.get(partition, offset), offset)
    right = {
        one
        for one in kept
        if of_topic.get(one[:2]) == one or one[1] < begins.get(one[0], one[1] + 1)
    }
    return Compared(len(kept), len(set(expected) - set(kept)), len(kept) - len(right))


def caught_up(servers: str, options: list[str], folder: Path) -> Compared:
    """Let an archive that nobody follows into catch up, and compare it.

    Brokers write snapshots of idle share partitions at any time: what is there before the archive
    catches up must be in it, and what is in it must be there afterwards.
    """
    expected = in_topic(servers)
    assert len(expected) > 50
    done = sharelag_process("capture", "--follow", "--until-now", *options, str(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    return compared(expected, expected | in_topic(servers), folder)
