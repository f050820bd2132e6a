"""The order in which a fetch takes its share partitions, and who may fetch one now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


def rotated(partitions: Sequence[_T], session_epoch: int) -> list[_T]:
    """The partitions of a share session in the order of one fetch (``PartitionRotateStrategy``).

    Each fetch of a session moves the order to the left by one, since the first partition may take
    the whole budget.

    Parameters
    ----------
    partitions : sequence
        In the order in which they came into the session.
    session_epoch : int
        0 opens a session, -1 ends it: neither rotates.
    """
    at = session_epoch % len(partitions) if partitions and session_epoch > 0 else 0
    return [*partitions[at:], *partitions[:at]]
