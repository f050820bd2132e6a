"""Progress of share partitions from the evidence: which record times to fetch, and the result."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.age import requested_offsets
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.facts import Facts
from sharelag.metrics.progress import progress_arrow

_ORDER = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]


def requested_times(evidence: Evidence) -> dict[bool, pa.Table]:
    """Return the records whose times determine the age of the lag.

    Parameters
    ----------
    evidence : Evidence
        With ``lag``, ``logs`` and ``settings``.

    Returns
    -------
    dict of bool to pyarrow.Table
        Positions for `sharelag.sources.inputs.Input.times`: False for read_uncommitted groups, True
        for read_committed ones, whose oldest record differs where transactions were aborted.
    """
    return {
        is_committed: requested_offsets(lag, evidence.logs)
        for is_committed, lag in _by_isolation(evidence).items()
    }


def progress_of(evidence: Evidence) -> pa.Table:
    """Return age, rates, drain and retention of every share partition.

    Parameters
    ----------
    evidence : Evidence
        With ``lag``, ``observed``, ``past_offsets``, ``times``, ``committed``, ``logs``, ``groups``
        and ``settings``, for all share partitions of some groups.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.PROGRESS`, sorted by group, topic and partition.
    """
    parts = []
    for is_committed, lag in _by_isolation(evidence).items():
        parts.append(
            progress_arrow(
                lag,
                evidence.observed,
                evidence.past_offsets,
                evidence.committed if is_committed else evidence.times,
                evidence.logs,
                evidence.as_of,
                Facts(replace(evidence, lag=lag)).patience,
                evidence.groups,
                is_committed,
            )
        )
    return pa.Table.from_batches(parts).sort_by(_ORDER)


def _by_isolation(evidence: Evidence) -> dict[bool, pa.Table]:
    committed = pc.is_in(
        evidence.lag.column("group_id"), pa.array(sorted(evidence.reads_committed), pa.string())
    )
    return {False: evidence.lag.filter(pc.invert(committed)), True: evidence.lag.filter(committed)}
