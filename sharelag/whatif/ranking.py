"""Ranking of assignors on randomly drawn scenarios, compared with one of them.

    suite()                  # 200 scenarios
    found = rank_assignors(["simple", "lag-aware-sticky", "mine"])
    found                    # best first
    found.ranked             # the same as a table, also by family of scenarios

Each scenario is simulated once with each assignor, with the same seed. The time to drain shows how
well members are used, the p95 age how fair that is to the oldest records; moves and pairs are the
costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from sharelag.errors import InputError
from sharelag.model import topic_id_text
from sharelag.tables import views
from sharelag.tables.declared import trials
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import number, percent, pluralize
from sharelag.whatif.assignors.group import AssignorError
from sharelag.whatif.assignors.registry import find_assignor
from sharelag.whatif.comparison.intervals import ratio_interval
from sharelag.whatif.consumers import AcquireMode, Behaviour, Limits, Member, Service, Settings
from sharelag.whatif.grid import Progress, Runs, in_turn
from sharelag.whatif.presenting import present
from sharelag.whatif.scenario import Burst, Fault, Poison, Producer, Scenario, Topic
from sharelag.whatif.simulation.streams import generator

#: The family of a seed is its remainder by five.
FAMILIES = ("skewed", "bursty", "heterogeneous", "failing", "mixed")
#: Separates these random numbers from those of the simulation with the same seed.
_STREAM = 932
_T = TypeVar("_T")


def suite(count: int = 200) -> tuple[Scenario, ...]:
    """Draw the scenarios for ranking assignors, the same ones on every machine.

    Parameters
    ----------
    count : int
        Number of scenarios: the first ones do not depend on it.

    Returns
    -------
    tuple of Scenario
        Each is named by its family and number, such as ``skewed-40``; families take turns.

    Raises
    ------
    InputError
        ``count`` is below 1.

    Notes
    -----
    One run takes a fraction of a second. What is drawn, and why:

    * 2 to 32 partitions and 1 to 24 members, in all proportions: far more of either, or about as
      many.
    * 5 to 100 ms of work per record, fixed, exponential or log-normal, and 0.2 to 1 s of it per
      poll: members with long work per record poll few. Large groups get slow records, so that a run
      stays short.
    * For 20 to 40 s, records arrive at 0.5 to 1.3 times the capacity of all members, besides a
      backlog of up to 20 s of work. Then nothing arrives any longer, so that even an overloaded
      group drains in the end, and the time until then shows how well its members were used.
    * One broker or three, and members with ``batch_optimized`` or ``record_limit``: the first
      fetches from all leaders at once, the second from one after the other.
    * An assignor that uses the lag may be called every 5, 10 or 30 s.

    Four families add one difficulty each, a fifth mixes two to four of them:

    * ``skewed``: partitions get records in proportion to ``1 / k ** s``, ``s`` from 0.5 to 2, or by
      skewed keys; in half of the others, the hot partitions change midway.
    * ``bursty``: up to three times, for 3 to 12 s, 2 to 8 times as many records arrive, in all
      partitions or in one of them.
    * ``heterogeneous``: members 2 to 8 times slower than others, up to three topics of which
      members subscribe to some, partitions with 2 to 5 times the work per record, racks. The first
      member subscribes to all.
    * ``failing``: one member in four, never the first, crashes, hangs or loses its heartbeats, for
      5 to 60 s or indefinitely; some records are released, are poison, or get stuck until their
      locks expire; leaders change.

    The load takes these into account: slower members and bursts make no group busier than the range
    above.
    """
    if count < 1:
        raise InputError(f"a suite of {count} scenarios ranks nothing: give at least 1")
    return tuple(map(draw_scenario, range(count)))


def family_of(scenario: Scenario) -> str:
    """Return the family of a scenario of the suite, one of `FAMILIES`."""
    return scenario.name.rpartition("-")[0]


def draw_scenario(seed: int) -> Scenario:
    """Draw the scenario of a number from 0 on, whose remainder by five is its family."""
    chance, family = generator(seed, _STREAM), FAMILIES[seed % len(FAMILIES)]
    added = {family}
    if family == "mixed":
        added = {FAMILIES[one] for one in chance.permutation(4)[: chance.integers(2, 5)]}
    scenario = _draw_plain(chance)
    # In this order, since later ones change the topics and producers of earlier ones.
    for add in (_heterogeneous, _skewed, _bursty, _failing):
        if add.__name__.removeprefix("_") in added:
            scenario = add(scenario, chance)
    partitions = sum(topic.partitions for topic in scenario.topics)
    about = (
        f"{pluralize(len(scenario.members), 'member')}, {pluralize(partitions, 'partition')}; "
        f"{', '.join(sorted(added))}; drawn at random"
    )
    # Kafka's assignor orders partitions by the ids of topics, so no two scenarios have the same.
    ids = (topic_id_text(chance.bytes(16)) for _ in scenario.topics)
    topics = tuple(replace(one, id=id_) for one, id_ in zip(scenario.topics, ids, strict=True))
    return replace(scenario, topics=topics, name=f"{family}-{seed}", about=about)


def _draw_plain(chance: np.random.Generator) -> Scenario:
    """Draw an even, healthy group with a random load."""
    partitions = _one_of(chance, (2, 3, 4, 6, 8, 12, 16, 24, 32))
    members = _one_of(chance, (1, 2, 3, 4, 6, 8, 12, 16, 24))
    work_ms = _one_of(chance, [work for work in (5, 10, 20, 50, 100) if work >= 2 * members])
    polled = max(_one_of(chance, (200, 500, 1000)) // work_ms, 1)
    batch = min(_one_of(chance, (1, 2, 5, 10, 20)), polled)
    service = Service(work_ms, _one_of(chance, _KINDS), _between(chance, 0.5, 1.5))
    capacity = 1000 * members / work_ms
    end = _whole(chance, 20, 40) * 1000
    backlog = round(capacity * _between(chance, 0, 20) / partitions)
    rate = round(capacity * _between(chance, 0.5, 1.3), 1)
    brokers, acquire_mode = _one_of(chance, (1, 3)), _one_of(chance, _ACQUIRE_MODES)
    like = Member(service=service, max_poll_records=polled, acquire_mode=acquire_mode)
    return Scenario(
        topics=(Topic("orders", partitions, backlog=backlog, batch_records=batch),),
        members=tuple(replace(like, name=f"m{number}") for number in range(members)),
        producers=(Producer("orders", rate, batch_records=batch, end_ms=end),),
        settings=Settings(rebalance_interval_ms=_one_of(chance, (5000, 10_000, 30_000))),
        brokers=brokers,
        settled=True,
        duration_ms=DURATION_MS,
    )


def _heterogeneous(scenario: Scenario, chance: np.random.Generator) -> Scenario:
    """Vary members in speed, subscriptions and racks, and partitions in the work per record."""
    (whole,), (producer,) = scenario.topics, scenario.producers
    counts = _split(chance, whole.partitions)
    costly = _between(chance, 2, 5) if chance.random() < 0.5 else 1.0
    where = tuple(((name, _whole(chance, 0, count - 1)), costly) for name, count in counts.items())
    slower, share = _between(chance, 2, 8), _between(chance, 0.2, 0.6)
    factors = [slower if chance.random() < share else 1.0 for _ in scenario.members]
    members = []
    for place, (member, factor) in enumerate(zip(scenario.members, factors, strict=True)):
        some = [name for name in counts if chance.random() < 0.6]
        mean_ms, polled = member.service.mean_ms * factor, member.max_poll_records / factor
        other = replace(
            member,
            service=replace(member.service, mean_ms=mean_ms, by_partition=where),
            topics=tuple(some if place and some else counts),
            rack=_one_of(chance, _RACKS),
            max_poll_records=max(round(polled), 1),
        )
        members.append(other)
    # The capacity of the group, as a share of what it was.
    work = 1 + len(counts) * (costly - 1) / whole.partitions
    part = sum(1 / factor for factor in factors) / len(factors) / work
    backlog = round(whole.starts[0].end_offset * part)
    topics, producers, batch = [], [], producer.batch_records
    for name, count in counts.items():
        racks = tuple((_RACKS[number % 3],) for number in range(count))
        topics.append(Topic(name, count, backlog=backlog, batch_records=batch, racks=racks))
        rate = round(producer.rate * part * count / whole.partitions, 2)
        producers.append(replace(producer, topic=name, rate=rate))
    return replace(
        scenario, topics=tuple(topics), producers=tuple(producers), members=tuple(members)
    )


def _skewed(scenario: Scenario, chance: np.random.Generator) -> Scenario:
    """Distribute records by rank or by keys; by rank, the backlog is as uneven."""
    topics, producers = [], []
    for topic, producer in zip(scenario.topics, scenario.producers, strict=True):
        if chance.random() < 0.3:
            topics.append(topic)
            keys, skew = _one_of(chance, (20, 100, 1000)), _between(chance, 0.8, 1.5)
            producers.append(replace(producer, keys=keys, key_skew=skew))
            continue
        skew = _between(chance, 0.5, 2)
        first, then = (_draw_shares(chance, topic.partitions, skew) for _ in range(2))
        backlog = sum(start.end_offset for start in topic.starts)
        starts = replace(topic, starts=(), backlog=tuple(round(backlog * part) for part in first))
        topics.append(starts)
        if chance.random() < 0.5:
            middle = (producer.end_ms or 0) // 2
            producers.append(replace(producer, weights=first, end_ms=middle))
            producers.append(replace(producer, weights=then, begin_ms=middle))
        else:
            producers.append(replace(producer, weights=first))
    return replace(scenario, topics=tuple(topics), producers=tuple(producers))


def _bursty(scenario: Scenario, chance: np.random.Generator) -> Scenario:
    """Add bursts, and reduce the rate between them, so that the total stays the same."""
    partitions = {topic.name: topic.partitions for topic in scenario.topics}
    producers = []
    for producer in scenario.producers:
        begin, end = producer.begin_ms, producer.end_ms or 0
        begins = [_whole(chance, begin, end - 3000) for _ in range(_whole(chance, 1, 3))]
        ends = ((at, min(at + _whole(chance, 3000, 12_000), end)) for at in begins)
        bursts = [Burst(*span, _between(chance, 2, 8)) for span in ends]
        more = sum((burst.factor - 1) * (burst.end_ms - burst.begin_ms) for burst in bursts)
        calm = replace(producer, rate=round(producer.rate / (1 + more / (end - begin)), 2))
        hot, extra = _whole(chance, 0, partitions[producer.topic] - 1), calm
        if chance.random() < 0.5:
            only = tuple(float(number == hot) for number in range(partitions[producer.topic]))
            extra = replace(calm, weights=only, keys=calm.keys if only == calm.weights else 0)
        producers.append(calm)
        for one in bursts:
            rate = round(calm.rate * (one.factor - 1), 2)
            producers.append(replace(extra, rate=rate, begin_ms=one.begin_ms, end_ms=one.end_ms))
    return replace(scenario, producers=tuple(producers))


def _failing(scenario: Scenario, chance: np.random.Generator) -> Scenario:
    """Add failures of members, of records and of leaders."""
    end = max(producer.end_ms or 0 for producer in scenario.producers)
    released = _one_of(chance, (0.0, 0.01, 0.05))
    faults, members = [], []
    for place, member in enumerate(scenario.members):
        lasts = None if place and chance.random() < 0.3 else _whole(chance, 5, 60) * 1000
        behaviour = Behaviour(accept=1 - released, release=released, restart_ms=lasts)
        members.append(replace(member, behaviour=behaviour))
        if place and chance.random() < 0.25:
            at_ms, kind = _whole(chance, 3000, end), _one_of(chance, _FAULTS)
            faults.append(Fault(at_ms, kind, member.name, lasts))
    poison = {}
    for topic in scenario.topics:
        for _ in range(_whole(chance, 0, 3)):
            partition, offset = _whole(chance, 0, topic.partitions - 1), _whole(chance, 0, 99)
            record = (topic.name, partition, offset)
            poison[record] = Poison(*record, *_one_of(chance, _POISON))
        if chance.random() < 0.3:
            partition, at_ms = _whole(chance, 0, topic.partitions - 1), _whole(chance, 3000, end)
            faults.append(Fault(at_ms, "leader_change", topic=topic.name, partition=partition))
    limits = Limits(lock_duration_ms=_one_of(chance, (15_000, 30_000)))
    return replace(
        scenario,
        members=tuple(members),
        faults=tuple(faults),
        poison=tuple(poison.values()),
        settings=replace(scenario.settings, limits=limits),
    )


#: Long enough for most scenarios to drain with any assignor.
DURATION_MS = 240_000
_Kind: TypeAlias = Literal["fixed", "exponential", "lognormal"]
_KINDS: tuple[_Kind, ...] = ("fixed", "exponential", "lognormal")
_ACQUIRE_MODES: tuple[AcquireMode, ...] = ("batch_optimized", "record_limit")
_FAULTS: tuple[Literal["crash", "hang", "mute"], ...] = ("crash", "hang", "mute")
_RACKS = ("a", "b", "c")
#: How a record fails, and in how many deliveries.
_POISON: tuple[tuple[Literal["release", "reject", "silent", "crash"], int], ...] = (
    *(("release", 1 << 15), ("reject", 1), ("silent", 1), ("silent", 2), ("crash", 1)),
)


def _split(chance: np.random.Generator, partitions: int) -> dict[str, int]:
    """Distribute partitions over one to three topics."""
    names = ("orders", "payments", "refunds")[: _whole(chance, 1, min(3, partitions))]
    counts = dict.fromkeys(names, 1)
    for _ in range(partitions - len(names)):
        counts[_one_of(chance, names)] += 1
    return counts


def _draw_shares(chance: np.random.Generator, count: int, skew: float) -> tuple[float, ...]:
    """Draw the shares of partitions, in proportion to a power of their random rank."""
    parts = [1 / rank**skew for rank in range(1, count + 1)]
    # Rounded, since the last digits of a power differ between machines.
    return tuple(round(parts[one] / sum(parts), 4) for one in chance.permutation(count).tolist())


def _one_of(chance: np.random.Generator, values: Sequence[_T]) -> _T:
    return values[int(chance.integers(len(values)))]


def _whole(chance: np.random.Generator, low: int, high: int) -> int:
    return int(chance.integers(low, high + 1))


def _between(chance: np.random.Generator, low: float, high: float) -> float:
    return round(low + (high - low) * float(chance.random()), 2)


RANKED = trials.RANKED.schema
#: The family of a row about the whole suite.
ALL = "all"
#: Runs within this factor are equal; shorter times count as this, the step of a timeline.
_ALIKE, _LEAST_MS = 1.05, 1000.0
_RATIOS = {"drain_ratio": "drain_ms", "age_p95_ratio": "age_p95_ms"}
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ranking(Displayable):
    """The performance of assignors on the suite.

    Attributes
    ----------
    ranked
        One row per assignor, over all scenarios and then by family, shortest times to drain first:
        `RANKED`.
    runs
        One row per scenario and assignor: `sharelag.whatif.comparison.tables.RUNS`.
    baseline
        The assignor that the others are compared to.
    """

    ranked: pa.Table
    runs: pa.Table
    baseline: str

    def for_people(self) -> list[dict[str, Any]]:
        """Return the rows over all scenarios in words."""

        def ratio(row: Mapping[str, Any], name: str) -> str:
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            return f"{row[name]:.2f}" + ("" if low is None else f" [{low:.2f}..{high:.2f}]")

        return [
            row
            | {name: ratio(row, name) for name in _RATIOS}
            | {"moves_per_minute": number(row["moves_per_minute"])}
            | {"pairs_share": percent(row["pairs_share"])}
            for row in self.ranked.to_pylist()
            if row["family"] == ALL
        ]

    def verdict(self) -> str:
        """Return one sentence, without a full stop, about the best assignor and its gain."""
        best = self.for_people()[0]
        high = self.ranked.column("drain_ratio_high")[0].as_py()
        if best["assignor"] == self.baseline or high is None or high >= 1:
            return f"no assignor is shown to drain sooner than {self.baseline}"
        return (
            f"{best['assignor']} drains soonest: {best['drain_ratio']} of the time of "
            f"{self.baseline}, with {best['age_p95_ratio']} of its p95 age"
        )

    def conditions(self) -> str:
        """Say what was simulated, and what the intervals are."""
        count = len(set(self.runs.column("scenario").to_pylist()))
        return (
            f"{pluralize(count, 'scenario')}, each with the same seed; ratios are geometric means "
            f"with {percent(_CONFIDENCE)} intervals over the scenarios"
        )

    def presentation(self) -> Presentation:
        """Return the table, with the verdict first among its notes."""
        notes = (self.verdict(), self.conditions())
        title = f"Assignors, compared to {self.baseline}"
        return present(title, self.for_people(), views.RANKED, notes)


def rank_assignors(
    assignors: Iterable[str],
    *,
    baseline: str = "simple",
    count: int = 200,
    seed: int = 0,
    runs: Runs | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Simulate assignors on the scenarios of the suite, and rank them.

    Parameters
    ----------
    assignors : iterable of str
        Some of `assignor_names`; functions of your own by the name given to `register`.
    baseline : str
        The assignor that the others are compared to; it need not be among them.
    count : int
        Number of scenarios, as for `suite`.
    seed : int
        Random seed of the simulations.
    runs : callable, optional
        Runs variants and seeds, such as `sharelag.sweep`; by default they run in this process, one
        after the other.
    progress : callable, optional
        Called with ``(done, all)``, in runs, if they run in this process.

    Returns
    -------
    Ranking
        A row for each assignor, best first.

    Raises
    ------
    InputError
        An assignor is unknown, or ``count`` is below 1.
    AssignorError
        An assignor fails in some scenario.
    """
    if isinstance(assignors, str):
        raise InputError(f"assignors are several names: give [{assignors!r}]")
    names, scenarios = list(dict.fromkeys([baseline, *assignors])), suite(count)
    for name in names:
        find_assignor(name)
    variants = {
        f"{name} · {one.name}": replace(one, assignor=name) for name in names for one in scenarios
    }
    made = (runs or partial(in_turn, progress=progress))(variants, [seed])
    failed = [row for row in made.to_pylist() if row["error"] is not None]
    if failed:
        raise AssignorError(
            f"{pluralize(len(failed), 'run')} failed, so nothing can be ranked; the first is "
            f"{failed[0]['variant']}: {failed[0]['error']}; sharelag.whatif.check_contract shows "
            "where an assignor of your own goes wrong"
        )
    return rank_runs(made, scenarios, baseline)


def rank_runs(runs: pa.Table, scenarios: Sequence[Scenario], baseline: str) -> Ranking:
    """Rank assignors by existing runs: one row per scenario and assignor."""
    rows = {(row["assignor"], row["scenario"]): row for row in runs.to_pylist()}
    names = list(dict.fromkeys(name for name, _ in rows))
    found: list[dict[str, Any]] = []
    for family in (ALL, *FAMILIES):
        chosen = [one for one in scenarios if family in (ALL, family_of(one))]
        if not chosen:
            continue
        by_name = {name: [rows[name, one.name] for one in chosen] for name in names}
        most = sum(map(_pairs_of_all, chosen))
        mine = [
            {"family": family, "assignor": name}
            | _row(by_name[name], by_name[baseline])
            | {"pairs_share": sum(row["pairs"] for row in by_name[name]) / most}
            for name in names
        ]
        found += sorted(mine, key=lambda row: tuple(row[name] for name in _RATIOS))
    return Ranking(pa.Table.from_pylist(found, schema=RANKED), runs, baseline)


def _row(mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "scenarios": len(mine),
        "never_drained": sum(one["drain_ms"] is None for one in mine),
        "moves_per_minute": float(np.mean([one["moves_per_minute"] for one in mine])),
    }
    for name, measure in _RATIOS.items():
        known = (
            [one["duration_ms"] if one[measure] is None else one[measure] for one in rows]
            for rows in (mine, theirs)
        )
        own, others = (np.maximum(times, _LEAST_MS) for times in known)
        ratios = own / others
        better, worse = int((ratios < 1 / _ALIKE).sum()), int((ratios > _ALIKE).sum())
        of = name.removesuffix("_ratio")
        row |= {f"{of}_better": better, f"{of}_worse": worse}
        row[f"{of}_same"] = len(ratios) - better - worse
        names = (name, f"{name}_low", f"{name}_high")
        row |= zip(names, ratio_interval(own, others, _CONFIDENCE), strict=True)
    return row


def _pairs_of_all(scenario: Scenario) -> int:
    """Return the pairs of member and partition if each member had all subscribed partitions."""
    partitions = {topic.name: topic.partitions for topic in scenario.topics}
    return sum(partitions[name] for member in scenario.each_member() for name in member.topics)
