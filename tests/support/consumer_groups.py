"""Runs of simulated consumer groups, and what they leave."""

from typing import Any

from sharelag.whatif import Costs, Member, Producer, Scenario, Service, Topic

FREE = Costs(0, 0, 0)


def lives(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.members.to_pylist()
    return found


def appended(
    records: int, members: int, partitions: int, service: Service, **more: Any
) -> Scenario:
    """Records that all come at 30 s, when each member has what it gets."""
    return Scenario(
        (Topic("t", partitions),),
        (Member(count=members, service=service, max_poll_records=10),),
        (Producer("t", records * 1000, "steady", begin_ms=30_000, end_ms=30_001),),
        costs=FREE,
        **more,
    )
