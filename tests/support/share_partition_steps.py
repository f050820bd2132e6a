"""Steps of a share partition, and what is live after them."""

from __future__ import annotations

from sharelag.model import DeliveryState, Window
from sharelag.replay import replay_arrow
from sharelag.replay.state import window_items
from sharelag.whatif.records import StateTopic
from sharelag.wire import decode_arrow
from tests.support.share_partition import SharePartition

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACQUIRED,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVED,
)


def runs(share: SharePartition) -> list[tuple[int, int, int, int]]:
    return [(run[0], run[1], int(run[2]), run[3]) for run in share.in_flight()]


def replayed(topic: StateTopic) -> Window:
    decoded = decode_arrow(topic.records())
    assert decoded.rejects.num_rows == 0
    [(_, window)] = window_items(replay_arrow(decoded.records))
    return window
