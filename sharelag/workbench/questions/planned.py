"""What would be if offsets were reset or deleted; nothing is written anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sharelag.whatif.from_cluster import scenario_from
from sharelag.workbench import deletions, resets
from sharelag.workbench.ask import question

if TYPE_CHECKING:
    from sharelag.workbench.opened import Tables
    from sharelag.workbench.result import Result


@question("windows", "lag", "groups", "settings", history_with="simulate")
def plan_reset(
    t: Tables,
    group: str,
    to: resets.Target = None,
    shift_by: int | None = None,
    topics: tuple[str, ...] = (),
    local_offsets: str | Path | None = None,
    simulate: bool = False,
    members: int | None = None,
    kafka_version: str | None = None,
) -> Result:
    """What a reset of a group's start offsets would do; nothing is written anywhere."""
    bench = t.bench
    whole = simulate or bench.is_gathered
    evidence = bench.evidence(group) if whole else bench.state_of(group, "windows", "groups")
    plan = resets.reset_of(t.read, evidence, group, to, shift_by, topics, local_offsets)
    said = deletions.not_simulated()
    if simulate:
        plan, said = deletions.simulated(scenario_from(evidence, group), plan, members)
    return resets.reset_answer(
        plan, evidence, group, to, topics, bench.base_of(evidence), bench.source, said,
        kafka_version,
    )  # fmt: skip


@question("evidence")
def plan_delete(
    t: Tables,
    group: str,
    topics: tuple[str, ...] = (),
    simulate: bool = False,
    members: int | None = None,
    kafka_version: str | None = None,
) -> Result:
    """What a deletion of a group, or of its offsets of topics, would do; nothing is written."""
    evidence = t.bench.evidence(group)
    plan, begins = deletions.deletion_of(t.read, evidence, group, topics)
    said = deletions.not_simulated()
    if simulate:
        plan, said = deletions.simulated(scenario_from(evidence, group), plan, members)
    return deletions.deletion_answer(
        plan, evidence, group, topics, begins, t.bench.base_of_evidence(group), t.bench.source,
        said, kafka_version,
    )  # fmt: skip
