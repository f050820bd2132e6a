"""Make and score forecasts in recorded and simulated histories, for docs/forecasts.md.

python -m tools.forecasts_page
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import sharelag
from sharelag import schemas
from sharelag.whatif import simulate
from sharelag.whatif.scenario import Burst, Fault, Member, Producer, Scenario, Service, Topic
from sharelag.workbench import Workbench

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SIMULATED = 24


class History(NamedTuple):
    """A history as it is read at moments, one after the other."""

    name: str
    open_at: Callable[[datetime], Workbench]
    moments: list[datetime]
    horizon: timedelta


def moments(first: datetime, last: datetime, every: timedelta) -> list[datetime]:
    """Return moments ``every`` apart."""
    return [first + every * n for n in range(int((last - first) / every) + 1)]


def recorded() -> Iterator[History]:
    """Yield the recorded shop, looked at every half minute."""
    bench = sharelag.open(engine="local")
    first, last = bench.reading.counted.first, bench.evidence().as_of
    assert first is not None
    yield History(
        "recorded shop",
        lambda at: sharelag.open(engine="local", as_of=at),
        moments(first + 2 * MINUTE, last, 30 * SECOND),
        MINUTE,
    )


def drawn(random: Random, name: str) -> Scenario:
    """Draw a group that keeps up, falls behind or catches up, and what happens to it."""
    members, partitions = random.randint(2, 5), random.randint(2, 6)
    mean_ms = random.choice([20.0, 50.0, 100.0])
    rate = random.uniform(0.5, 1.15) * members * 1000 / mean_ms
    lasts = 15 * 60_000
    bursts = tuple(
        Burst(at, at + random.randint(20_000, 120_000), random.uniform(1.5, 5))
        for at in sorted(random.randint(0, lasts) for _ in range(random.randint(0, 4)))
    )
    faults = tuple(
        Fault(random.randint(60_000, lasts), random.choice(["crash", "hang"]), f"member-{number}", 60_000)
        for number in range(random.randint(0, 2))
    )
    return Scenario(
        topics=(Topic("orders", partitions, backlog=random.choice([0, 0, 500, 3000])),),
        members=(Member(count=members, max_poll_records=random.choice([10, 50]), service=Service(mean_ms, random.choice(["exponential", "lognormal"]))),),
        producers=(Producer("orders", rate, bursts=bursts),),
        faults=tuple(one if one.kind == "hang" else replace(one, for_ms=None) for one in faults),
        duration_ms=lasts,
        step_ms=2000,
        settled=True,
        group_id=name,
        name=name,
    )


def simulated(count: int = SIMULATED) -> Iterator[History]:
    """Yield simulated groups, looked at every half minute."""
    for seed in range(count):
        scenario = drawn(Random(seed), f"simulated-{seed}")  # noqa: S311
        result = simulate(scenario, seed)
        raw, ends = pa.Table.from_batches([result.records()]), ends_of(scenario, result.timeline)
        begin = pc.min(ends.column("as_of")).as_py()
        last = begin + scenario.duration_ms * timedelta(milliseconds=1)
        yield History(
            scenario.name,
            lambda at, raw=raw, ends=ends: sharelag.open(
                raw=raw, offsets=ends, engine="local", as_of=at
            ),
            moments(begin + 2 * MINUTE, last, 30 * SECOND),
            MINUTE,
        )


def ends_of(scenario: Scenario, timeline: pa.Table) -> pa.Table:
    """Return the ends of the logs at the moments of a simulation."""
    ids = {topic.name: topic.id for topic in scenario.topics}
    times = pc.add(timeline.column("time_ms"), scenario.begins_ms)
    columns = {
        "topic": timeline.column("topic"),
        "topic_id": pa.array([ids[name] for name in timeline.column("topic").to_pylist()]),
        "partition": timeline.column("partition"),
        "log_start_offset": timeline.column("log_start_offset"),
        "end_offset": timeline.column("end_offset"),
        "leader_epoch": pa.nulls(timeline.num_rows, pa.int32()),
        "as_of": times.cast(pa.int64()).cast(schemas.TIMESTAMP),
    }
    return pa.table({name: columns[name].cast(schemas.OFFSETS.field(name).type) for name in schemas.OFFSETS.names})
