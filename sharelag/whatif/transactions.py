"""Open transactions of a cluster: which block a group that reads only committed records."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from sharelag.metrics.causes import CauseInputs
from sharelag.metrics.causes.declared import open_transaction
from sharelag.metrics.evidence import Evidence
from sharelag.whatif.estimates import Place
from sharelag.whatif.scenario import Settings


def lasting(evidence: Evidence, group: str) -> dict[Place, tuple[int, float]]:
    """Return the open transactions that block a group for longer than the lock duration.

    They are those that `sharelag.metrics.causes` names as the cause ``open_transaction``: one
    that began a moment ago is what every transactional producer has at any time. By topic id and
    partition: the last stable offset, and the milliseconds since the first record was appended.
    """
    facts = CauseInputs.of(evidence)
    where = open_transaction.find(facts).where
    rows = evidence.lag.select(["group_id", "topic_id", "partition"]).to_pylist()
    return {
        (row["topic_id"], row["partition"]): (int(stable), float(facts.now - since))
        for row, is_open, stable, since in zip(
            rows, where, facts.stable_end, facts.stable_since, strict=True
        )
        if is_open and row["group_id"] == group
    }


def note(
    evidence: Evidence,
    lag: list[dict[str, Any]],
    settings: Settings,
    open_: dict[Place, tuple[int, float]],
    assumed: list[str],
) -> None:
    """Say which open transactions stay open, and which are taken to be committed at once.

    ``open_`` are those of `lasting`, ``lag`` the rows of the group; ``assumed`` gets the sentences.
    """
    if settings.isolation_level != "read_committed":
        return
    names = {(row["topic_id"], row["partition"]): row["topic"] for row in lag}
    for place, (offset, _) in sorted(open_.items()):
        assumed.append(
            f"the transaction that is open in {names[place]}:{place[1]} from offset {offset} on "
            "stays open: nothing from there on can be read"
        )
    stable = _stable_ends(evidence)
    brief = sum(
        stable.get(place, end) < end
        for row in lag
        if (place := (row["topic_id"], row["partition"])) not in open_
        and (end := row["end_offset"]) is not None
    )
    if brief:
        assumed.append(
            f"open transactions, in {brief} of {len(lag)} partitions, are committed at once: "
            "they began lately, or it is not known when"
        )


def blocked(evidence: Evidence, lag: list[dict[str, Any]], settings: Settings) -> set[Place]:
    """Return partitions of whose backlog nobody can get anything new, with hardly any at hand.

    Their windows are full, or an open transaction begins where they end.
    """
    is_committed = settings.isolation_level == "read_committed"
    stable = _stable_ends(evidence) if is_committed else {}
    found = set()
    for row in lag:
        place, end = (row["topic_id"], row["partition"]), row["window_end_offset"]
        start = row["effective_start_offset"]
        at_hand = (row["window_available"] or 0) + (row["window_unknown"] or 0)
        if end is None or start is None or at_hand > 1:  # 1: the record that blocks
            continue
        is_full = end - start >= settings.limits.max_record_locks
        if is_full or stable.get(place, end + 1) <= end:
            found.add(place)
    return found


def _stable_ends(evidence: Evidence) -> dict[Place, int]:
    logs = evidence.logs.filter(pc.is_valid(evidence.logs.column("last_stable_offset")))
    rows = logs.to_pylist()
    return {(row["topic_id"], row["partition"]): row["last_stable_offset"] for row in rows}
