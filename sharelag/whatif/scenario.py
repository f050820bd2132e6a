"""Scenarios: a share group with its topics, producers, members, settings and faults, as values.

Times are milliseconds from the start of the simulation unless stated otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from itertools import count as count_from
from itertools import islice
from math import inf
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_type_hints

from sharelag.durations import duration
from sharelag.errors import InputError, list_names
from sharelag.model import SharePartition, Window, derive_topic_id
from sharelag.tables import views
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import spell_out
from sharelag.whatif import consumers
from sharelag.whatif.autoscale import Autoscaler
from sharelag.whatif.consumers import Behaviour, Limits, Member, Service, Settings
from sharelag.whatif.presenting import pairs, present
from sharelag.wire.placement import USUAL, abs_hash, state_partition

__all__ = ["BEGINS_MS", "Behaviour", "Burst", "Costs", "Fault", "Limits", "Member"]
__all__ += ["PartitionStart", "Poison", "Producer", "Scenario", "Service", "Settings", "Topic"]
#: 2026-01-01T00:00:00Z, when simulations start unless stated otherwise.
BEGINS_MS = 1_767_225_600_000


@dataclass(frozen=True)
class PartitionStart:
    """The initial state of one topic partition.

    Attributes
    ----------
    end_offset, log_start_offset
        Offsets of the log; the end is exclusive.
    window
        The persisted state of the share partition; None: the group is new, and its settings
        determine where it starts.
    batch_records
        Records in each record batch of the existing log.
    oldest_age_ms
        The age of the record at the window's start offset; later ones arrived evenly since.
    missing
        Offsets that compaction removed from the log.
    open_from
        The first offset of a transaction that stays open until the end: a ``read_committed`` group
        gets nothing from there on, neither existing nor arriving records. None: no transaction.
    """

    end_offset: int = 0
    log_start_offset: int = 0
    window: Window | None = None
    batch_records: int = 1
    oldest_age_ms: float = 0.0
    missing: tuple[int, ...] = ()
    open_from: int | None = None

    def __post_init__(self) -> None:
        consumers.require_least(self, 1, "batch_records")
        at, start, end = self.open_from, self.log_start_offset, self.end_offset
        if at is not None and not start <= at <= end:
            raise InputError(
                f"a transaction is open from offset {at} on, in a log of the offsets {start} to "
                f"{end}: give an offset of that log"
            )


#: Upper bound of the partitions of a scenario. A whole Kafka cluster has fewer.
MOST_PARTITIONS = 1_000_000


@dataclass(frozen=True)
class Topic:
    """One topic.

    Attributes
    ----------
    name, partitions, id
        The id is as Kafka prints it; by default tables show one that is derived from the name.
        Kafka's assignor orders partitions by the id: with uneven parts, it decides which ones a
        member gets. So by default each seed draws an id, as a broker does for a new topic.
    backlog
        Initial records to deliver in each partition: one number for all, or one for each.
    batch_records
        Records in each record batch of that backlog.
    starts
        One for each partition, instead of the two above.
    racks
        Racks of the replicas, by partition.
    leaders
        Initial leaders by partition, as brokers numbered from 0. Empty: brokers lead in turn.
    coordinators
        The share coordinators of each partition; the next two brokers have copies of the state.
        Empty: Kafka's placement, with brokers that lead the 50 partitions of the state topic in
        turn.
    retention_ms, segment_records
        How long records are kept, and how many of them are deleted together; None keeps all.
    compact_ms
        The interval at which records are removed that have a later one with the same key
        (``cleanup.policy=compact``), for producers with keys; the latest record batch of a
        partition is not compacted. None: never.
    added_ms
        When the last partitions are added, in the order of their numbers; the others exist from the
        beginning. A group starts in them as its settings say, when it learns of them.
    """

    name: str
    partitions: int
    id: str = ""
    backlog: int | tuple[int, ...] = 0
    batch_records: int = 1
    starts: tuple[PartitionStart, ...] = ()
    racks: tuple[tuple[str, ...], ...] = ()
    leaders: tuple[int, ...] = ()
    coordinators: tuple[int, ...] = ()
    retention_ms: int | None = None
    segment_records: int = 1000
    compact_ms: int | None = None
    added_ms: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.partitions > MOST_PARTITIONS:  # checked before creating a start for each
            raise InputError(
                f"topic {self.name!r} has {self.partitions:,} partitions: give at most "
                f"{MOST_PARTITIONS:,}"
            )
        if not self.id:
            object.__setattr__(self, "id", derive_topic_id(self.name))
        if not self.starts:
            backlog, there = self.backlog, self.partitions - len(self.added_ms)
            counts = backlog if isinstance(backlog, tuple) else (backlog,) * self.partitions
            usual = PartitionStart(
                window=Window(0, 0, 0, 0, 0, BEGINS_MS, BEGINS_MS), batch_records=self.batch_records
            )
            starts = [replace(usual, end_offset=count) for count in counts[:there]]
            starts += [PartitionStart() for _ in counts[there:]]
            object.__setattr__(self, "starts", tuple(starts))
        has = f"topic {self.name!r} has"
        if self.partitions < 1 or len(self.starts) != self.partitions:
            raise InputError(
                f"{has} {self.partitions} partitions and {len(self.starts)} starts or backlogs: "
                "give as many as it has partitions, or one number for all"
            )
        for what in ("leaders", "coordinators"):
            if (count := len(getattr(self, what))) not in (0, self.partitions):
                raise InputError(
                    f"{has} {self.partitions} partitions and {count} {what}: give one for each "
                    "partition, or none"
                )
        consumers.require_least(self, 1, "retention_ms", "segment_records", "compact_ms")
        if len(self.added_ms) >= self.partitions or list(self.added_ms) != sorted(self.added_ms):
            raise InputError(
                f"topic {self.name!r} has added_ms {list(self.added_ms)}: give ascending times, "
                f"one per added partition, and fewer than its {self.partitions} partitions"
            )

    @property
    def is_named_only(self) -> bool:
        """True if no id is given: the id of the topic is derived from its name."""
        return self.id == derive_topic_id(self.name)

    def there_from(self) -> tuple[int, ...]:
        """Return when each partition is added, in ms."""
        return (0,) * (self.partitions - len(self.added_ms)) + self.added_ms


@dataclass(frozen=True)
class Burst:
    """A span in which a producer appends ``factor`` times as many records."""

    begin_ms: int
    end_ms: int
    factor: float

    def __post_init__(self) -> None:
        consumers.require_order(self, "begin_ms", "end_ms")


@dataclass(frozen=True)
class Producer:
    """A producer of records to a topic.

    Attributes
    ----------
    topic, rate
        Records per second, to all partitions together; 0.5 is one every two seconds.
    pattern
        ``poisson``: record batches arrive at random; ``steady``: at equal intervals.
    batch_records
        Records in each record batch.
    weights
        How records are distributed over the partitions; if empty, evenly or by keys.
    keys, key_skew
        Number of keys, the k-th drawn in proportion to ``1 / k ** key_skew``; a key's partition is
        the CRC-32 of its number, as with librdkafka's default partitioner. The records of a record
        batch have the same key. 0: records without a key.
    bursts
        May overlap: the factors multiply.
    day
        24 factors, one for each hour (UTC); empty: always 1.
    transaction_batches, transaction_ms, abort_share
        Record batches in each transaction of a partition, 0 without transactions; the delay of the
        transaction marker after the last of them, which takes an offset, too; and the share of
        transactions that are aborted.
    begin_ms, end_ms
        The time in which it produces; None: until the end.
    """

    topic: str
    rate: float
    pattern: Literal["poisson", "steady"] = "poisson"
    batch_records: int = 1
    weights: tuple[float, ...] = ()
    keys: int = 0
    key_skew: float = 0.0
    bursts: tuple[Burst, ...] = ()
    day: tuple[float, ...] = ()
    transaction_batches: int = 0
    transaction_ms: float = 10.0
    abort_share: float = 0.0
    begin_ms: int = 0
    end_ms: int | None = None

    def __post_init__(self) -> None:
        consumers.require_least(self, 0, "rate")
        consumers.require_least(self, 1, "batch_records")
        consumers.require_order(self, "begin_ms", "end_ms")
        if self.day and len(self.day) != 24:
            raise InputError(
                f"the day of a producer has {len(self.day)} factors: give 24, one for each hour"
            )
        if self.weights and not any(self.weights):
            raise InputError(
                f"all weights of a producer of {self.topic!r} are 0, so no partition gets its "
                "records: give one above 0"
            )
        if not 0 <= self.abort_share <= 1:
            raise InputError(f"abort_share is {self.abort_share}: give a share from 0 to 1")


#: The assignor of an assignment made by hand: each member keeps `Member.edited`.
EDITED = "edited"
#: Upper bound of a scenario's members, including those that join and leave.
_MOST_MEMBERS = 10 * consumers.MOST_MEMBERS


@dataclass(frozen=True)
class Costs:
    """Latencies of network and brokers.

    The defaults are those of one broker of Kafka 4.3.1 with Java clients on the same small and busy
    machine, with warm JVMs: half the round trip of an ``ApiVersions`` request; polls of ten records
    (2.5 ms) and commits of one (1.8 ms) on average, as recorded in ``data/fidelity``. Replicas and
    a real network take longer. Latencies matter if a record is little work.
    """

    network_ms: float = 0.1  # one way
    # of a broker, to answer a fetch with records; its fetch locks are held meanwhile
    fetch_ms: float = 2.3
    write_ms: float = 1.6  # of the share coordinator, to accept a write
    # until others take over from a dead broker (broker.session.timeout.ms)
    failover_ms: float = 9000.0
    record_bytes: int = 1000
    fetch_max_bytes: int = 52_428_800  # fetch.max.bytes, split over the partitions of a fetch


@dataclass(frozen=True)
class Poison:
    """A record that fails, in every delivery or in the first few.

    Attributes
    ----------
    how
        The member releases or rejects it, never acknowledges it (``silent``), or crashes; or it
        acknowledges the rest of its poll first, holds the record for another ``hold_ms``
        (``hold``), even beyond its lock, then accepts it and continues.
    work_ms
        The time of each delivery, with any member; None: like any other record.
    """

    topic: str
    partition: int
    offset: int
    how: Literal["release", "reject", "silent", "crash", "hold"] = "release"
    attempts: int = 1 << 15  # more than Kafka can count
    work_ms: int | None = None
    hold_ms: int | None = None

    def __post_init__(self) -> None:
        consumers.require_least(self, 0, "work_ms")
        if (self.how == "hold") != (self.hold_ms is not None) or (self.hold_ms or 0) < 0:
            raise InputError(
                f"a record with how={self.how!r} has hold_ms {self.hold_ms}: give hold_ms of at "
                "least 0 with how='hold', and not otherwise"
            )


@dataclass(frozen=True)
class Fault:
    """An event at a certain time.

    Attributes
    ----------
    kind
        ``crash``, ``hang``, ``mute`` (heartbeats get lost) of a ``member``, the last two for
        ``for_ms`` or forever; ``subscribe`` of a ``member`` to other ``topics``, or to none: it
        leaves the group until it subscribes again; ``leader_change`` of a partition;
        ``delete_records`` of a partition before ``offset``; ``broker_down`` of a ``broker``, for
        ``for_ms`` or forever: its share sessions end, and after ``Costs.failover_ms`` the next
        broker leads its share partitions, with their written state. Until then acknowledgements
        wait where it has a copy of the share state, as their writes wait for all copies, and
        longer where it is the share coordinator, as leaders retry ever more slowly; and heartbeats
        are lost if it coordinates the group. Not simulated: leaders give up after five attempts
        (about 30 s), and lose what waits to be written if they stop, too.
    """

    at_ms: int
    kind: Literal[
        "crash", "hang", "mute", "subscribe", "leader_change", "delete_records", "broker_down"
    ]
    member: str = ""
    for_ms: int | None = None
    topic: str = ""
    partition: int = 0
    offset: int = 0
    topics: tuple[str, ...] = ()
    broker: int = 0


@dataclass(frozen=True)
class Scenario(Displayable):
    """All input of `sharelag.whatif.simulate` except the seed.

    Attributes
    ----------
    assumed
        The assumptions behind it: sentences for people.
    initialized
        Whether the group already knows its share partitions; otherwise its first members wait for a
        heartbeat.
    settled
        Whether the initial members have joined before, and have their partitions
        (`Member.assigned`, as far as the assignor keeps them); otherwise they join one after the
        other.
    step_ms
        Time between two rows of the timeline.
    coordinator
        The broker that coordinates the group; None: Kafka's placement, as for
        `Topic.coordinators`.
    autoscaler
        Adds and removes members (`sharelag.whatif.autoscale`), starting with those of the scenario.
    """

    topics: tuple[Topic, ...]
    members: tuple[Member, ...]
    producers: tuple[Producer, ...] = ()
    settings: Settings = field(default_factory=Settings)
    costs: Costs = Costs()
    assignor: str = "simple"
    poison: tuple[Poison, ...] = ()
    faults: tuple[Fault, ...] = ()
    duration_ms: int = 600_000
    step_ms: int = 1000
    brokers: int = 1
    coordinator: int | None = None
    group_id: str = "what-if"
    begins_ms: int = BEGINS_MS
    initialized: bool = True
    settled: bool = False
    autoscaler: Autoscaler | None = None
    name: str = ""
    about: str = ""
    assumed: tuple[str, ...] = field(default=())

    def presentation(self) -> Presentation:
        """Return the table that is displayed."""
        given = [
            f"{one.name} {getattr(mine, one.name)}"
            for mine, usual in ((self.settings, Settings()), (self.settings.limits, Limits()))
            for one in fields(mine)
            if one.name != "limits" and getattr(mine, one.name) != getattr(usual, one.name)
        ]
        kinds = Counter(spell_out(fault.kind) for fault in self.faults)
        producers = [f"{one.topic}: {one.rate:,.3g}/s" for one in self.producers]
        values = {
            "group": self.group_id,
            "topics": list_names([f"{one.name} ({one.partitions})" for one in self.topics]),
            "members": f"{len(self.each_member()):,}",
            "producers": list_names(producers) or "none",
            "assignor": self.assignor,
            "settings that differ from Kafka's": ", ".join(given) or "none",
            "poison records": f"{len(self.poison):,}",
            "faults": ", ".join(f"{kind} ({count})" for kind, count in kinds.items()) or "none",
            "autoscaler": type(self.autoscaler).__name__ if self.autoscaler else "none",
            "lasts": duration(self.duration_ms),
        }
        notes = (self.about, *(f"assumed: {one}" for one in self.assumed))
        title = f"Scenario {self.name}" if self.name else f"Scenario of {self.group_id}"
        return present(title, pairs(values), views.SCENARIO, tuple(filter(None, notes)))

    def __post_init__(self) -> None:
        _require_values(self)
        known = {topic.name: topic.partitions for topic in self.topics}
        if len(known) != len(self.topics) or not known:
            raise InputError("a scenario needs topics with different names")
        self._require_topics(known)
        if (together := sum(member.count for member in self.members)) > _MOST_MEMBERS:
            raise InputError(
                f"a scenario has {together:,} members: give at most {_MOST_MEMBERS:,}, those that "
                "leave and join among them"
            )
        names = Counter(member.name for member in self.each_member())
        if twice := sorted(name for name, times in names.items() if times > 1):
            raise InputError(
                f"two members are called {twice[0]!r}: give them different names, or use count"
            )
        for fault in self.faults:
            if fault.kind in ("crash", "hang", "mute", "subscribe") and fault.member not in names:
                raise InputError(
                    f"the fault {fault.kind!r} names {fault.member!r}, "
                    f"which is not a member of the scenario"
                )
            if fault.kind != "broker_down":
                continue
            if not 0 <= fault.broker < self.brokers or self.brokers < 2:
                raise InputError(
                    f"broker {fault.broker} of {self.brokers} goes down: "
                    f"name one numbered from 0, and give the scenario at least 2"
                )
            if fault.for_ms is not None and fault.for_ms < self.costs.failover_ms:
                raise InputError(
                    f"broker {fault.broker} is back after {fault.for_ms} ms, before others lead: "
                    f"give for_ms of at least {self.costs.failover_ms:g}, or a smaller "
                    "costs.failover_ms"
                )
        come_and_go = (one.join_ms or one.leave_ms is not None for one in self.members)
        if self.autoscaler is not None and any(come_and_go):
            raise InputError(
                "an autoscaler decides when members join and leave: "
                "give them no join_ms and no leave_ms"
            )
        consumers.require_least(self, 1, "duration_ms", "step_ms", "brokers")
        given = [("the group", "coordinator", (self.coordinator or 0,))]
        for topic in self.topics:
            has = f"topic {topic.name!r}"
            given += [(has, what, getattr(topic, what)) for what in ("leaders", "coordinators")]
        for has, what, brokers in given:
            if any(not 0 <= one < self.brokers for one in brokers):
                raise InputError(
                    f"{has} has {what} {', '.join(map(str, brokers))}: the scenario's brokers are "
                    f"numbered from 0 to {self.brokers - 1}; name some of these, or no {what}"
                )

    def _require_topics(self, known: Mapping[str, int]) -> None:
        places: list[tuple[str, int]] = [(producer.topic, 0) for producer in self.producers]
        places += [(name, 0) for member in self.members for name in member.topics]
        places += [place for one in self.members for place in (*one.assigned, *one.edited)]
        places += [(poison.topic, poison.partition) for poison in self.poison]
        places += [(fault.topic, fault.partition) for fault in self.faults if fault.topic]
        places += [(name, 0) for fault in self.faults for name in fault.topics]
        for topic, partition in places:
            if not 0 <= partition < known.get(topic, 0):
                raise InputError(
                    f"partition {partition} of topic {topic!r} is named, "
                    f"but not among the topics: add it"
                )
        for producer in self.producers:
            if producer.weights and len(producer.weights) != known[producer.topic]:
                raise InputError(
                    f"a producer of {producer.topic!r} has {len(producer.weights)} weights: "
                    f"give one per partition"
                )

    @cached_property
    def starts(self) -> dict[tuple[str, int], PartitionStart]:
        """The initial state of each partition, by topic and number, in order."""
        each = ((topic.name, enumerate(topic.starts)) for topic in self.topics)
        return {(name, number): start for name, starts in each for number, start in starts}

    @property
    def leaders(self) -> tuple[int, ...]:
        """The initial leader of each partition, in the order of `starts`."""
        given = (one for topic in self.topics for one in topic.leaders or [None] * topic.partitions)
        return tuple(at % self.brokers if one is None else one for at, one in enumerate(given))

    @property
    def coordinators(self) -> tuple[int, ...]:
        """The share coordinator of each partition, in the order of `starts`."""
        return tuple(
            topic.coordinators[number]
            if topic.coordinators
            else state_partition(SharePartition(self.group_id, topic.id, number)) % self.brokers
            for topic in self.topics
            for number in range(topic.partitions)
        )

    @property
    def group_coordinator(self) -> int:
        """The broker that coordinates the group."""
        if self.coordinator is None:
            return abs_hash(self.group_id) % USUAL % self.brokers
        return self.coordinator

    def with_starts(self, starts: Mapping[tuple[str, int], PartitionStart]) -> Scenario:
        """Return the scenario with another initial state of some partitions."""
        known = {**self.starts, **starts}
        topics = (
            replace(one, starts=tuple(known[one.name, n] for n in range(one.partitions)))
            for one in self.topics
        )
        return replace(self, topics=tuple(topics))

    def each_member(self) -> list[Member]:
        """Return the members one by one, with their names and topics."""
        return list(self._each_member)

    @cached_property
    def _each_member(self) -> tuple[Member, ...]:
        topics = tuple(topic.name for topic in self.topics)
        found = []
        for member in self.members:
            one = replace(member, count=1, topics=member.topics or topics)
            names = (f"{one.name}-{number}" for number in range(member.count))
            found += [replace(one, name=name) for name in names] if member.count != 1 else [one]
        return tuple(found)

    def with_members(self, count: int) -> Scenario:
        """Return the scenario with ``count`` members from beginning to end.

        They are the existing members, then more modelled on them; without any, they are modelled on
        the first of ``members``, whose ``count`` is 0 then.

        Raises
        ------
        InputError
            ``count`` is not a number from 0 to the maximum that brokers accept.
        """
        count, there = consumers.require_members(count), self.each_member()
        each = there or [replace(one, count=1) for one in self.members[:1]] or [Member()]
        names = [member.name for member in there[:count]]
        fresh = (f"member-{number}" for number in count_from(len(names)))
        names += islice((name for name in fresh if name not in names), count - len(names))
        like = []
        for number, name in enumerate(names):
            stays = replace(each[number % len(each)], name=name, join_ms=0, leave_ms=None)
            like.append(stays if number < len(each) else replace(stays, assigned=()))
        kept = tuple(fault for fault in self.faults if not fault.member)
        return replace(self, members=tuple(like), faults=kept)


@cache
def _read_fields(kind: type[Any]) -> tuple[dict[str, tuple[Any, ...]], tuple[str, ...]]:
    """Return the fields of a dataclass that are numbers or choices, and those that hold parts."""
    values, parts = dict[str, tuple[Any, ...]](), list[str]()
    for name, hint in get_type_hints(kind).items():
        may_be = tuple(_leaves(hint))
        if any(map(is_dataclass, may_be)):
            parts.append(name)
        elif int in may_be or float in may_be or isinstance(may_be[0], str):
            values[name] = may_be
    return values, tuple(parts)


def _leaves(hint: Any) -> Iterator[Any]:
    """Yield the types or choices of a value, or of the elements of a tuple."""
    for one in get_args(hint) or (hint,):
        yield from _leaves(one) if get_args(one) else (one,)


def _require_values(part: Any) -> None:
    """Refuse fractions and unknown values in a part and its parts; convert numpy's numbers.

    A fraction would fail in the middle of a simulation, and an unknown value would pass as a
    default.
    """
    kind: Any = type(part)
    values, parts = _read_fields(kind)
    least = -1 if kind is Window else 0  # Kafka's own marks for unknown values
    for name, may_be in values.items():
        value = getattr(part, name)
        if type(value) in may_be and (value is None or least <= value < inf):
            continue
        value = _as_declared(value, may_be, least, f"{kind.__name__}.{name}")
        object.__setattr__(part, name, value)
    for name in parts:
        held = getattr(part, name)
        for one in held if isinstance(held, tuple) else (held,):
            if is_dataclass(one):
                _require_values(one)


def _as_declared(value: Any, may_be: tuple[Any, ...], least: int, where: str) -> Any:
    """Return a value, or those of a tuple, as Python's types, the only ones that JSON accepts."""
    if ... in may_be and isinstance(value, Iterable) and not isinstance(value, str):
        value = tuple(value)
        if {*map(type, value)} <= {*may_be} - {str} and all(least <= one < inf for one in value):
            return value  # unchanged, because there may be many
        return tuple(_as_declared(one, may_be, least, where) for one in value)
    if isinstance(value, str) and (value in may_be or str in may_be):
        return value
    if isinstance(may_be[0], str):
        raise InputError(f"{where} cannot be {value!r}: choose one of {', '.join(may_be)}")
    is_whole, is_number = (
        isinstance(value, numbers) and not isinstance(value, bool) for numbers in (Integral, Real)
    )
    if float not in may_be and not is_whole:
        raise InputError(f"{where} must be a whole number, not {value!r}: round it")
    if not is_number or not least <= value < inf:
        raise InputError(f"{where} cannot be {value!r}: give a number of at least {least}")
    return int(value) if is_whole else float(value)
