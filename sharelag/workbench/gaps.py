"""What is not known, and why: sentences about what is missing in an answer."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.evidence import Evidence
from sharelag.metrics.lag import NO_END_OFFSET_THEN, REASONS
from sharelag.workbench.engine import Answer


def of_evidence(evidence: Evidence, is_past: bool) -> tuple[str, ...]:
    """What is not known of everything that was gathered.

    Parameters
    ----------
    evidence : Evidence
    is_past : bool
        Whether it is of another moment than the last.
    """
    said = list(of_rejected(evidence.rejected))
    if not evidence.settings.num_rows:
        said.append("settings; Kafka's defaults are assumed")
    elif evidence.settings.column("value").null_count:
        said.append(
            "some settings, which are hidden from us; Kafka's defaults are assumed for them"
        )
    if is_past:
        said.append(
            "settings, retention and last stable offsets of that moment; those of now are taken"
        )
    if evidence.gaps.num_rows:
        said.append(
            f"what happened in {evidence.gaps.num_rows:,} places of the state topic, whose records are missing"
        )
    return tuple(said)


def of_answer(answer: Answer) -> tuple[str, ...]:
    """What is not in an answer."""
    return of_rejected(answer.rejected)


def of_rejected(rejected: int) -> tuple[str, ...]:
    """Records that could not be decoded."""
    return (
        (f"{rejected:,} records that could not be decoded; `sharelag decode` shows them",)
        if rejected
        else ()
    )


def of_lag(lag: pa.Table) -> tuple[str, ...]:
    """In how many rows the lag is not known, and why."""
    unknown = lag.filter(pc.is_null(lag.column("lag")))
    found = [
        reason
        for reason in pc.unique(unknown.column("lag_reason")).to_pylist()
        if reason in REASONS
    ]
    return of_rows(
        unknown.num_rows, len(lag), "the lag", (REASONS[reason] for reason in sorted(found))
    )


def of_column(table: pa.Table, name: str, what: str, why: Iterable[str] = ()) -> tuple[str, ...]:
    """In how many rows a column is null."""
    return of_rows(table.column(name).null_count, len(table), what, why)


def of_rows(count: int, of: int, what: str, why: Iterable[str] = ()) -> tuple[str, ...]:
    """``the lag in 2 of 14 share partitions (reasons)``; nothing where all is known."""
    reasons = "; ".join(why)
    return (
        (f"{what} in {count:,} of {of:,} share partitions" + (f" ({reasons})" if reasons else ""),)
        if count
        else ()
    )


def of_ends(timeline: pa.Table) -> tuple[str, ...]:
    """At how many moments of a timeline the end offset was not known."""
    lost = timeline.filter(pc.equal(timeline.column("lag_reason"), NO_END_OFFSET_THEN)).num_rows
    return (
        (f"the end offset, and with it the lag, in {lost:,} of {len(timeline):,} rows",)
        if lost
        else ()
    )
