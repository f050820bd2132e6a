"""Counters of a run, the tables that it leaves, and how the ones become the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.life import Life
from sharelag.whatif.simulation.streams import Longs

#: What is counted of a share partition and a member, in records.
COUNTS = ("deliveries", "redeliveries", "acknowledged", "released", "rejected", "refused")


class Tally:
    """Counters of one run.

    ``counts`` (as `COUNTS`) are by share partition and member. By share partition: offsets
    ``archived``, ``expired`` (given back since their locks expired) and ``lost`` (deleted before
    they were finished). ``finished`` has share partition, first and last offset and time
    (microseconds) of all that was. ``given_back`` are records that members released themselves,
    without what closed sessions and ended locks release; ``drained_at`` times (microseconds) at
    which nothing was left, at most one in each step of the timeline.
    """

    def __init__(self, places: int, step: int) -> None:
        self.counts: dict[tuple[int, int], list[int]] = {}
        self.archived, self.expired, self.lost = [0] * places, [0] * places, [0] * places
        self.finished: list[tuple[int, int, int, int]] = []
        self.given_back = 0
        self.drained_at: list[int] = []
        self._step = step

    def finished_since(self, count: int) -> Sequence[Sequence[int]]:
        """What was finished, without the first so many rows."""
        return self.finished[count:]

    def finished_rows(self) -> Longs:
        """What was finished, as rows of `finished`."""
        return np.array(self.finished, np.int64).reshape(-1, 4)

    def drained(self, now: int) -> None:
        """Nothing is left at this time."""
        if not self.drained_at or self.drained_at[-1] // self._step < now // self._step:
            self.drained_at.append(now)


#: One share partition at one moment of a simulation.
TIMELINE = pa.schema(
    [
        ("time_ms", pa.int64()),  # from the begin
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_start_offset", pa.int64()),
        ("start_offset", pa.int64()),  # in the leader's memory, as the next three
        ("window_end_offset", pa.int64()),  # exclusive
        ("delivery_complete_count", pa.int64()),
        ("in_flight", pa.int64()),  # acquired offsets
        ("end_offset", pa.int64()),
        ("lag", pa.int64()),  # end - start - count: what is left to finish
        # since the first unfinished record was appended; 0: nothing is left
        ("age_ms", pa.int64()),
        ("members", pa.int32()),  # that fetch it
    ]
)
#: One share partition and one member.
DELIVERIES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("member", pa.string()),
        *((name, pa.int64()) for name in COUNTS),  # records; refused: acknowledged too late
    ]
)
#: One life of one member.
MEMBERS = pa.schema(
    [
        ("member", pa.string()),
        ("life", pa.int32()),  # how often it came back before
        ("member_id", pa.string()),
        ("joined_ms", pa.int64()),
        ("left_ms", pa.int64()),  # null: it is still there
        ("ended", pa.string()),  # left, crashed, or refused: the group was full
        ("busy_ms", pa.float64()),
        ("idle_ms", pa.float64()),  # alive, but not processing records
        ("unassigned_ms", pa.float64()),  # of these, without a partition
        ("polls", pa.int64()),  # that brought records
        ("deliveries", pa.int64()),
        ("partitions", pa.int32()),  # assigned at the end
    ]
)
#: One target assignment.
ASSIGNMENTS = pa.schema(
    [
        ("time_ms", pa.float64()),
        ("assignment_epoch", pa.int32()),  # the group epoch that it is of
        ("members", pa.int32()),
        ("pairs", pa.int32()),  # of a member and a partition
        ("added", pa.int32()),
        ("revoked", pa.int32()),  # from members that stay
        ("idle", pa.int32()),  # members without a partition
        ("unserved", pa.int32()),  # partitions without a member
        # Kafka's rebalance-count of the group by then, which leaves out who left
        ("rebalances", pa.int32()),
    ]
)
#: Offsets that were finished together, acknowledged or archived.
FINISHED = pa.schema(
    [
        ("time_ms", pa.float64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
    ]
)
#: Neighbouring offsets in flight in one state at one moment.
IN_FLIGHT = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("delivery_state", pa.string()),  # available, acquired, acknowledged or archived
        ("delivery_count", pa.int32()),
        ("member", pa.string()),  # who has acquired them; null: nobody
        ("lock_ends_ms", pa.int64()),  # since the begin; null: nobody has acquired them
    ]
)
#: One request, when they were requested.
REQUESTS = pa.schema(
    [
        ("time_ms", pa.float64()),
        ("member", pa.string()),
        ("broker", pa.int32()),
        ("session_epoch", pa.int32()),  # 0 opens, -1 closes
        ("request", pa.string()),  # fetch, acknowledge, close
    ]
)


class Assigned(NamedTuple):
    """One target assignment, and what it changed for members that stayed."""

    time: int  # microseconds
    assignment_epoch: int
    members: int
    pairs: int
    added: int
    revoked: int
    idle: int
    unserved: int
    rebalances: int


def deliveries(tally: Tally, names: Sequence[tuple[str, int]], clients: Sequence[Life]) -> pa.Table:
    """Deliveries by partition and member, and what became of them."""
    rows = [
        (*names[place], clients[number].member.name, *counts)
        for (place, number), counts in sorted(tally.counts.items())
    ]
    return table(rows, DELIVERIES)


def members(tally: Tally, clients: Sequence[Life], now: int) -> pa.Table:
    """How the members spent their time."""
    delivered: dict[int, int] = {}
    for (_, number), counts in tally.counts.items():
        delivered[number] = delivered.get(number, 0) + counts[0]
    rows = []
    for client in clients:
        until = now if client.left is None else client.left
        idle = until - client.joined - client.busy
        left = None if client.left is None else client.left // MS
        spent = (one / MS for one in (client.busy, idle, client.unassigned))
        who = (client.member.name, client.life, client.id, client.joined // MS, left, client.ended)
        had = (client.polls, delivered.get(client.number, 0), len(client.places))
        rows.append((*who, *spent, *had))
    return table(rows, MEMBERS)


def assignments(made: Sequence[Assigned]) -> pa.Table:
    """The target assignments."""
    return table([(one.time / MS, *one[1:]) for one in made], ASSIGNMENTS)


def finished(tally: Tally, scenario: Scenario) -> pa.Table:
    """What was finished and when."""
    names = [
        (topic.name, number) for topic in scenario.topics for number in range(topic.partitions)
    ]
    return table(
        [
            (time / MS, *names[place], first, last)
            for place, first, last, time in tally.finished_rows().tolist()
        ],
        FINISHED,
    )


def duplicates(tally: Tally) -> int:
    """Redeliveries without a release of a member."""
    redelivered = sum(counts[COUNTS.index("redeliveries")] for counts in tally.counts.values())
    return max(redelivered - tally.given_back, 0)


def requests(made: Sequence[tuple[int, int, int, int, str]], clients: Sequence[Life]) -> pa.Table:
    """The requests of all sessions."""
    rows = [(time / MS, clients[number].member.name, *rest) for time, number, *rest in made]
    return table(rows, REQUESTS)


def table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    """Rows as a table of a schema."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
