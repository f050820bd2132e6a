"""States of a share group, by Kafka's names (``org.apache.kafka.common.GroupState``)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from sharelag.errors import InputError


class GroupState(StrEnum):
    """The states a share group can have (KIP-932, ``ShareGroupState``)."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"
    UNKNOWN = "Unknown"  # any other name

    @classmethod
    def parse(cls, name: str) -> GroupState:
        """Read a name in any case, as Kafka does; any other name is `UNKNOWN`."""
        known = {state.lower(): state for state in cls}
        return known.get(name.strip().lower(), cls.UNKNOWN)


def parse_states(names: Iterable[str]) -> frozenset[GroupState]:
    """Read the states to filter by, each of which can be several with commas between."""
    each = [name.strip() for text in names for name in text.split(",")]
    found = {name: GroupState.parse(name) for name in each}
    if wrong := [name for name, state in found.items() if state is GroupState.UNKNOWN]:
        valid = ", ".join(state for state in GroupState if state is not GroupState.UNKNOWN)
        raise InputError(f"unknown state {wrong[0]!r} of share groups: choose one of {valid}")
    return frozenset(found.values())
