"""A group with an autoscaler, and the rows of its run."""

from typing import Any

from sharelag.whatif import Burst, Member, Pods, Producer, Scenario, Service, Topic

SECOND = 1_000_000

#: 25 records a second, 40 ms each: one member is busy, and a burst of a minute asks for twenty.
LOAD = Scenario(
    (Topic("orders", 4),),
    (Member(count=2, service=Service(40), max_poll_records=50),),
    (Producer("orders", 25, batch_records=5, bursts=(Burst(60_000, 120_000, 20),)),),
    duration_ms=600_000,
)

QUICK = Pods(startup_ms=2000)


def rows(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.scaling.to_pylist()
    return found
