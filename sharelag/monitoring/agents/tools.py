"""What an agent can ask: one method a tool, each a question of the workbench."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from sharelag.errors import InputError
from sharelag.monitoring.agents.answers import (
    answer_of,
    causes_in_words,
    groups_in_words,
    lags_in_words,
    window_in_words,
)
from sharelag.monitoring.agents.parameters import (
    AnyGroup,
    Assignor,
    Group,
    Lock_,
    Members,
    Moment,
    Partition,
    Seconds,
    Seeds,
    Topic,
)
from sharelag.monitoring.agents.plans import PlanTools
from sharelag.tables.words import shown_name, terminal
from sharelag.whatif.compare import Comparison, compare
from sharelag.whatif.comparison.choices import variants
from sharelag.whatif.comparison.rows import SHOWN, amount, measure_words
from sharelag.whatif.comparison.size import size
from sharelag.whatif.comparison.verdict import unknown_work
from sharelag.whatif.horizon import cut_short
from sharelag.workbench.result import SIMULATED, Result

#: Record batches, polls and timeline rows of all runs of one call: seconds, not minutes.
MOST_WORK = 3e6
_MOST_VARIANTS = 12
_LOCK = "share.record.lock.duration.ms"


class Tools(PlanTools):
    """Questions about the groups of one input as they are, and what-ifs; see `AskedOf`."""

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
        (row,) = found.to_pylist()
        return answer_of(
            replace(result, table=found),
            f"What does the coordinator hold of {place}?",
            window_in_words(row),
        )

    def what_if(
        self,
        group: Group,
        members: Members | None = None,
        assignor: Assignor | None = None,
        lock_seconds: Lock_ | None = None,
        seconds: Seconds | None = None,
        seeds: Seeds = 7,
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
        return self._compared(group, counts, assignors, lock_seconds, seconds, seeds)

    def compare(
        self,
        group: Group,
        members: Annotated[list[Members], Field(max_length=_MOST_VARIANTS)] = [],  # noqa: B006
        assignors: Annotated[list[Assignor], Field(max_length=_MOST_VARIANTS)] = [],  # noqa: B006
        seconds: Seconds | None = None,
        seeds: Seeds = 7,
    ) -> dict[str, Any]:
        """Simulate every combination of members and assignors against the group as it is."""
        if not members and not assignors:
            raise InputError("choose numbers of members, or assignors, to compare")
        return self._compared(group, members, assignors, None, seconds, seeds)

    def _compared(
        self,
        group: str,
        members: Sequence[int],
        assignors: Sequence[str],
        lock_seconds: int | None,
        seconds: int | None,
        seeds: int,
    ) -> dict[str, Any]:
        bench = self.now()
        scenario = bench.scenario(group)
        scenario = (
            cut_short(scenario)
            if seconds is None
            else replace(scenario, duration_ms=seconds * 1000)
        )
        changed = {} if lock_seconds is None else {
            f"lock {lock_seconds} s": {_LOCK: lock_seconds * 1000}
        }  # fmt: skip
        tried = {"as it is": scenario} | variants(
            scenario, assignors=assignors, members=members, settings=changed
        )
        if len(tried) > _MOST_VARIANTS:
            raise InputError(
                f"{len(tried)} variants are more than {_MOST_VARIANTS}: choose fewer members or "
                "assignors"
            )
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
            unknown=(*begin.unknown, *_unknown(found)),
            notes=(
                *found.sentences(),
                *(f"assumed: {sentence}" for sentence in scenario.assumed),
            ),
        )
        by_measure = () if unknown_work(scenario) else _verdicts(found)
        return answer_of(result, result.title, found.verdict(), by_measure)


def _verdicts(found: Comparison) -> Iterator[str]:
    """Say which variant is best, and how it compares with the group as it is, by measure."""
    by_measure: dict[str, list[dict[str, Any]]] = {}
    for row in found.rows(SHOWN):
        by_measure.setdefault(row["measure"], []).append(row)
    for measure, rows in by_measure.items():
        best = next((row for row in rows if row["winner"]), None)
        said = ", ".join(f"{row['variant']}: {_words(measure, row)}" for row in rows)
        by = measure_words(measure)
        how = "better" if len(rows) == 2 else "best"
        verdict = f"{best['variant']} is {how} by it" if best else "no difference is shown"
        yield f"{by}: {said}; {verdict}"


def _unknown(found: Comparison) -> Iterator[str]:
    for row in found.rows(SHOWN):
        if row["unknown"]:
            runs = row["n"] + row["unknown"]
            yield (
                f"{measure_words(row['measure'])} of {row['variant']} is unknown in "
                f"{row['unknown']} of {runs} runs: they ended before"
            )


def _words(measure: str, row: dict[str, Any]) -> str:
    if row["mean"] is None:
        return "unknown"
    return f"{amount(measure, row['mean'])} on average"
