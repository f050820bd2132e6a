"""A share partition that plays KIP-932's walk, what its members do, and what is live after it."""

from typing import Any

from sharelag.model import DeliveryState, Window
from sharelag.replay import replay_arrow
from sharelag.replay.state import window_items
from sharelag.whatif.records import StateTopic, Write
from sharelag.wire import decode_arrow
from tests.support.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    LogBatch,
    SharePartition,
    persist,
)
from tests.support.share_schedules import KEY

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACQUIRED,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVED,
)

LOCK = 30_000

WALK_LOG = [LogBatch(*b) for b in [(100, 109), (110, 112), (113, 118), (119, 119), (120, 120)]]

#: Who fetches how many records, or says what, and when; None: nothing but that locks run out.
STEPS: dict[int, list[tuple[str, int, Any]]] = {
    1: [("c1", 0, 10)],
    2: [("c1", 10, (100, 109, ACCEPT))],
    3: [("c1", 1000, 3), ("c2", 2000, 6), ("c3", 3000, 1)],
    4: [("c1", 4000, (110, 110, RELEASE))],
    5: [("c3", 5000, (119, 119, ACCEPT))],
    6: [("c1", 6000, 2)],
    7: [("", 1000 + LOCK, None)],
    8: [("c2", 31_500, (113, 118, ACCEPT))],
    9: [("c3", 31_600, 2)],
    10: [("c1", 31_700, (110, 110, ACCEPT))],
    11: [("c3", 31_800, (111, 112, ACCEPT))],
}


def log(first: int, last: int, size: int) -> list[LogBatch]:
    return [LogBatch(base, min(base + size - 1, last)) for base in range(first, last + 1, size)]


def say(share: SharePartition, member: str, now: int, *said: tuple[int, int, Any]) -> None:
    share.acknowledge(member, now, [Acknowledgement(*one) for one in said])


class Walk:
    """KIP-932's walk from 100 to 120, on a topic that a share coordinator writes."""

    def __init__(self, last_step: int = 11) -> None:
        self.topic = StateTopic(partitions=1)
        self.topic.initialize(KEY, 1, 1, 100)
        self.writes: dict[int, list[Write]] = {}
        self.acquired: dict[int, list[list[tuple[int, int, int]]]] = {}
        self.step = 0
        self.share = SharePartition.load(
            self.topic.read(KEY, 2, 1), 0, leader_epoch=2, persist=self.persist
        )
        for self.step in range(1, last_step + 1):
            for member, now, what in STEPS[self.step]:
                if what is None:
                    self.share.expire_locks(now)
                elif isinstance(what, int):
                    self.fetch(member, now, what)
                else:
                    say(self.share, member, now, what)

    def persist(self, write: Write) -> bool:
        self.writes.setdefault(self.step, []).append(write)
        return persist(self.topic, KEY)(write)

    def fetch(self, member: str, now: int, count: int) -> None:
        offset = self.share.next_fetch_offset()
        fetched = [batch for batch in WALK_LOG if batch.last_offset >= offset]
        acquired = self.share.acquire(member, now, fetched, count)
        self.acquired.setdefault(self.step, []).append([(r[0], r[1], r[2]) for r in acquired])


def runs(share: SharePartition) -> list[tuple[int, int, int, int]]:
    return [(run[0], run[1], int(run[2]), run[3]) for run in share.in_flight()]


def replay_topic(topic: StateTopic) -> Window:
    decoded = decode_arrow(topic.records())
    assert decoded.rejects.num_rows == 0
    [(_, window)] = window_items(replay_arrow(decoded.records))
    return window
