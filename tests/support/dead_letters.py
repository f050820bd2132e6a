"""Records of dead-letter queues as a broker with KIP-1191 writes them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from sharelag.schemas import WITH_HEADERS

REJECTED = "Offset rejected by client."
EXCEEDED = "Offset delivery count exceeded the threshold."


class Letter(NamedTuple):
    """A record that a group gave up."""

    group: str
    topic: str
    partition: int
    offset: int
    deliveries: int | None = 1
    message: str | None = REJECTED
    value: bytes | None = None
    key: bytes | None = None

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """In the order and by the names of ``ShareGroupDLQStateManager``, as UTF-8."""
        told = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        told |= {"group": self.group, "delivery.count": self.deliveries, "message": self.message}
        return [
            (f"__dlq.errors.{name}", str(v).encode()) for name, v in told.items() if v is not None
        ]


def queue_table(
    letters: Iterable[Letter | dict[str, Any]], topic: str = "dlq.orders", partitions: int = 1
) -> pa.Table:
    """The records of a queue: a letter goes to the partition of its source, modulo their number."""
    ends = [0] * partitions
    rows = []
    for letter in letters:
        row: dict[str, Any] = {"topic": topic, "timestampType": 0}
        if isinstance(letter, Letter):
            place = letter.partition % partitions
            row |= {"key": letter.key, "value": letter.value, "headers": letter.headers}
        else:
            place = 0
            row |= letter
        rows.append(row | {"partition": place, "offset": ends[place]})
        ends[place] += 1
    return pa.Table.from_pylist(rows, schema=WITH_HEADERS)
