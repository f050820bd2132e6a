"""What an agent can ask: one method per tool, each a question of the workbench."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from sharelag.durations import parse_duration
from sharelag.errors import InputError, ShareLagError
from sharelag.monitoring.agents.answers import (
    answer_of,
    causes_in_words,
    groups_in_words,
    lags_in_words,
    plan_in_words,
    settings_in_words,
    window_in_words,
)
from sharelag.replay.moment import parse_time
from sharelag.tables.words import shown_name, terminal
from sharelag.whatif.compare import Comparison, compare
from sharelag.whatif.comparison.intervals import enough_seeds
from sharelag.whatif.comparison.rows import SHOWN, amount, measure_words, standing, unknown_work
from sharelag.whatif.grid import variants
from sharelag.whatif.horizon import WORDS, cut_short, size
from sharelag.workbench.bench import Workbench
from sharelag.workbench.questions.planned import not_simulated
from sharelag.workbench.result import SIMULATED, Result

#: Kafka's default of ``group.share.max.size``; larger groups are simulated by the command line.
MOST_MEMBERS = 200
_MOST_TOPICS = 100


def _text(description: str, most: int = 100) -> Any:
    """Describe a text of bounded length, which an agent reads in the tool's schema."""
    return Field(max_length=most, description=description)


Group = Annotated[str, Field(max_length=1000, description="Id of a share group.")]
AnyGroup = Annotated[
    str | None, Field(max_length=1000, description="Id of a share group; without it, all groups.")
]
Topic = Annotated[str, Field(max_length=249, description="Name of a topic.")]
Partition = Annotated[int, Field(ge=0, lt=1 << 31, description="Partition of the topic.")]
Moment = Annotated[
    str | None,
    _text("A past moment with its time zone, such as 2026-11-21T03:10:00Z; now without."),
]
Members = Annotated[int, Field(ge=1, le=MOST_MEMBERS, description="Number of members.")]
Assignor = Annotated[str, _text("An assignor, such as simple or lag-aware-sticky.")]
Seconds = Annotated[int, Field(ge=1, le=3600, description=f"Simulated seconds; without, {WORDS}.")]
Seeds = Annotated[
    int | None,
    Field(ge=2, le=30, description="Simulated runs of each variant. Default: enough to tell them."),
]
Lock_ = Annotated[int, Field(ge=1, le=3600, description="Lock duration of records in seconds.")]
Topics = Annotated[
    list[Annotated[str, Field(max_length=1000)]],
    Field(
        max_length=_MOST_TOPICS,
        description="Only these topics, or with orders:0,2 only these partitions; without, all.",
    ),
]
TopicNames = Annotated[
    list[Topic],
    Field(max_length=_MOST_TOPICS, description="Only the offsets of these topics; without, all."),
]
LogEnd = Annotated[
    Literal["earliest", "latest"] | None,
    Field(description="To the start or to the end of each log."),
]
Offset = Annotated[int | None, Field(ge=0, lt=1 << 63, description="To this offset, in each log.")]
Written = Annotated[
    str | None, _text("To the first record of this time or later, such as 2026-11-21T03:10:00Z.")
]
Ago = Annotated[
    str | None, _text("To the first record written within this time before now, such as 30m.")
]
Shift = Annotated[
    int | None,
    Field(
        gt=-(1 << 63),
        lt=1 << 63,
        description="By this many offsets from the first unfinished one; backwards if negative.",
    ),
]
KafkaVersion = Annotated[
    str | None, _text("Version of Kafka's command, such as 4.3.1; without, that of the input.")
]
Given = Annotated[
    dict[Annotated[str, Field(max_length=249)], Annotated[str, Field(max_length=1000)]],
    Field(max_length=_MOST_TOPICS, description="Values to check as if they were set, by name."),
]
#: Record batches, polls and timeline rows of all runs of one call: seconds, not minutes.
MOST_WORK = 3e6
_MOST_VARIANTS = 12
_LOCK = "share.record.lock.duration.ms"
_TARGETS = "to, to_offset, to_time, ago or shift_by"


class Tools:
    """Questions about the groups of one input, which is read again for each of them.

    The user chose it; no question can name another.
    """

    # Empty lists and mappings are defaults, since agents read a tool's defaults in its schema.

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._one_at_a_time = Lock()

    def now(self) -> Workbench:
        """Return the input as it is now."""
        with self._one_at_a_time:
            self._bench = self._bench.refresh()
            return self._bench

    def read_ahead(self) -> None:
        """Read once before anybody asks, since the first reading loads machine code for seconds.

        A question meanwhile waits for it. The next question says what went wrong, if anything did.
        """
        with self._one_at_a_time, suppress(ShareLagError):
            self._bench = self._bench.refresh()
            self._bench.overview()

    def groups(self) -> dict[str, Any]:
        """List the share groups, worst first: level, lag, age, rates, what becomes of it, cause."""
        result = self.now().overview()
        rows = result.table.to_pylist()
        return answer_of(result, "How are the share groups?", result.title, groups_in_words(rows))

    def lag(self, group: AnyGroup = None) -> dict[str, Any]:
        """Give the lag of each share partition and its terms.

        Lag is Kafka's: end offset - start offset - delivery complete count; null where unknown.
        """
        result = self.now().lag(group)
        verdict, each = lags_in_words(result.table)
        return answer_of(result, "How much lag has each share partition?", verdict, each)

    def explain(self, group: AnyGroup = None) -> dict[str, Any]:
        """Say why groups lag: causes with their evidence and advice, the most severe first."""
        result = self.now().explain(group)
        return answer_of(result, "Why is there lag?", *causes_in_words(result))

    def window(
        self, group: Group, topic: Topic, partition: Partition, at: Moment = None
    ) -> dict[str, Any]:
        """Give the in-flight window of one share partition, now or at a past moment.

        ``batches`` are runs of offsets with their delivery state and delivery count.
        """
        bench = self.now()
        result = (bench if at is None else bench.at(at)).windows(group)
        names = result.table
        mine = pc.and_(
            pc.equal(names.column("topic"), topic), pc.equal(names.column("partition"), partition)
        )
        found = names.filter(mine)
        if not found.num_rows:
            topics = sorted(set(map(str, names.column("topic").to_pylist())))
            raise InputError(
                f"group {group!r} has no state of partition {partition} of topic {topic!r} at that "
                f"moment: it has topics {', '.join(topics) or 'not any'}"
            )
        place = f"{terminal(topic)}:{partition} of {shown_name(group)}"
        asked, (row,) = f"What does the coordinator hold of {place}?", found.to_pylist()
        return answer_of(replace(result, table=found), asked, window_in_words(row))

    def what_if(
        self,
        group: Group,
        members: Members | None = None,
        assignor: Assignor | None = None,
        lock_seconds: Lock_ | None = None,
        seconds: Seconds | None = None,
        seeds: Seeds = None,
    ) -> dict[str, Any]:
        """Simulate a group with one change against the group as it is, from its state now.

        ``as_of`` says when that state was; all that follows it is simulated.

        Give at least one of members, assignor and lock_seconds. Differences come with intervals
        at 95 % confidence; where an interval contains 0 the runs do not show a difference.
        """
        if members is None and assignor is None and lock_seconds is None:
            raise InputError("choose a change: members, assignor or lock_seconds")
        counts = () if members is None else (members,)
        assignors = () if assignor is None else (assignor,)
        return self._compare(group, counts, assignors, lock_seconds, seconds, seeds)

    def compare(
        self,
        group: Group,
        members: Annotated[list[Members], Field(max_length=_MOST_VARIANTS)] = [],  # noqa: B006
        assignors: Annotated[list[Assignor], Field(max_length=_MOST_VARIANTS)] = [],  # noqa: B006
        seconds: Seconds | None = None,
        seeds: Seeds = None,
    ) -> dict[str, Any]:
        """Simulate every combination of members and assignors against the group as it is."""
        if not members and not assignors:
            raise InputError("choose numbers of members, or assignors, to compare")
        return self._compare(group, members, assignors, None, seconds, seeds)

    def settings(self, group: AnyGroup = None, given: Given = {}) -> dict[str, Any]:  # noqa: B006
        """Give the settings in force, where they come from, and what conflicts.

        ``given`` are values to check as if they were set. Kafka's command that sets what Kafka
        accepts of them is among the notes; it is not run.
        """
        result = self.now().settings(group, given)
        return answer_of(result, "Which settings are in force?", *settings_in_words(result.table))

    def plan_reset(
        self,
        group: Group,
        to: LogEnd = None,
        to_offset: Offset = None,
        to_time: Written = None,
        ago: Ago = None,
        shift_by: Shift = None,
        topics: Topics = [],  # noqa: B006
        kafka_version: KafkaVersion = None,
    ) -> dict[str, Any]:
        """Say what a reset of a group's start offsets would do. Nothing is written.

        Give exactly one of to, to_offset, to_time, ago and shift_by. For each share partition: the
        new start offset and lag, what would be delivered again, and what would be skipped. Kafka's
        command is among the notes; it is not run.
        """
        at = None if to_time is None else parse_time(to_time)
        before = None if ago is None else parse_duration(ago)
        given = [target for target in (to, to_offset, at, before) if target is not None]
        if len(given) + (shift_by is not None) != 1:
            raise InputError(f"choose one of {_TARGETS}")
        target = given[0] if given else None
        result = self.now().plan_reset(
            group, target, shift_by=shift_by, topic=topics, kafka_version=kafka_version
        )
        return _plan(result, "plan-reset")

    def plan_delete(
        self,
        group: Group,
        topics: TopicNames = [],  # noqa: B006
        kafka_version: KafkaVersion = None,
    ) -> dict[str, Any]:
        """Say what a deletion of a group, or of its offsets, would do. Nothing is written.

        For each share partition: where members that come back would begin, what would be delivered
        again, and what would be skipped. Kafka's command is among the notes; it is not run.
        """
        result = self.now().plan_delete(group, topics, kafka_version=kafka_version)
        return _plan(result, "plan-delete")

    def _compare(
        self,
        group: str,
        members: Sequence[int],
        assignors: Sequence[str],
        lock_seconds: int | None,
        seconds: int | None,
        seeds: int | None,
    ) -> dict[str, Any]:
        bench = self.now()
        scenario = bench.scenario(group)
        if seconds is None:
            scenario = cut_short(scenario)
        else:
            scenario = replace(scenario, duration_ms=seconds * 1000)
        changed = {}
        if lock_seconds is not None:
            changed = {f"lock {lock_seconds} s": {_LOCK: lock_seconds * 1000}}
        others = variants(scenario, assignors=assignors, members=members, settings=changed)
        tried = {"as it is": scenario} | others
        if len(tried) > _MOST_VARIANTS:
            raise InputError(
                f"{len(tried)} variants are more than {_MOST_VARIANTS}: choose fewer members or "
                "assignors"
            )
        seeds = enough_seeds(len(tried)) if seeds is None else seeds
        work = sum(map(size, tried.values())) * seeds
        if work > MOST_WORK:
            raise InputError(
                f"these runs have about {work:.2g} record batches, polls and timeline rows, more "
                f"than {MOST_WORK:.2g}: choose fewer seconds, seeds or variants"
            )
        begin = bench.lag(group)
        found = compare(tried, seeds=range(seeds), baseline="as it is")
        result = Result(
            f"What if {shown_name(group)} were run otherwise?",
            pa.Table.from_pylist(list(found.rows(SHOWN))),
            {},
            begin.as_of,
            bench.describe(),
            engine=SIMULATED,
            unknown=(*begin.unknown, *_say_unknown(found)),
            notes=(*found.sentences(), *(f"assumed: {sentence}" for sentence in scenario.assumed)),
        )
        by_measure = () if unknown_work(scenario) else _verdicts(found)
        return answer_of(result, result.title, found.verdict(), by_measure)


def _plan(result: Result, command: str) -> dict[str, Any]:
    """Give a plan; only the command simulates what follows, as that can take minutes."""
    here = not_simulated(f"`sharelag {command} --simulate`")
    notes = (here if note == not_simulated() else note for note in result.notes)
    result = replace(result, notes=tuple(notes))
    return answer_of(result, result.title, plan_in_words(result.table))


def _verdicts(found: Comparison) -> Iterator[str]:
    """Say which variant is best, and how it compares with the group as it is, by measure."""
    by_measure: dict[str, list[dict[str, Any]]] = {}
    for row in found.rows(SHOWN):
        by_measure.setdefault(row["measure"], []).append(row)
    for measure, rows in by_measure.items():
        said = ", ".join(f"{row['variant']}: {_words(measure, row)}" for row in rows)
        by = measure_words(measure)
        best = standing(found.best(measure), found.baseline, len(rows) == 2)
        yield f"{by}: {said}; {f'{best} by it' if best else 'no difference is shown'}"


def _say_unknown(found: Comparison) -> Iterator[str]:
    for row in found.rows(SHOWN):
        if row["unknown"]:
            what = f"{measure_words(row['measure'])} of {row['variant']}"
            runs = f"{row['unknown']} of {row['n'] + row['unknown']} runs"
            yield f"{what} is unknown in {runs}: they ended before"


def _words(measure: str, row: dict[str, Any]) -> str:
    if row["mean"] is None:
        return "unknown"
    return f"{amount(measure, row['mean'])} on average"
