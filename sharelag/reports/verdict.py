"""The verdict: a level and the main facts for each share group, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.model import iso
from sharelag.reports.changes import changes
from sharelag.reports.cluster import cluster_of
from sharelag.reports.inputs import Case
from sharelag.tables.level import CHECKED, worst
from sharelag.tables.reasons import REASONS
from sharelag.tables.words import counted
from sharelag.workbench.judged import headline, judged_groups, rule_of

FORMAT = 1


def verdict(case: Case) -> dict[str, Any]:
    """Judge the share groups of a report.

    Returns
    -------
    dict
        ``level``, one of `sharelag.tables.level.LEVELS`; ``headline``, a sentence; ``as_of``,
        ``begin`` and ``source``;
        ``groups``, the worst first, each with its lag, age, drain, causes and ``why``, the main
        finding in a sentence (None: no problem); ``rules``, the outcome of rules that concern no
        group; ``unknown``, sentences; ``changes``, None for the first report. Names are Kafka's:
        escape them wherever they are shown.
    """
    broken = _broken(case)
    groups = judged_groups(case.evidence, broken=broken)
    rules = [rule_of(one) for one in broken.get(None, [])]
    levels = [group["level"] for group in groups] or ["unknown"]
    level = worst([*levels, *(rule["level"] for rule in rules)])
    judged: dict[str, Any] = {
        "format": FORMAT,
        "level": level,
        "headline": headline(groups, rules),
        "as_of": iso(case.evidence.as_of),
        "begin": iso(case.evidence.as_of - case.known_span),
        "source": case.bench.source.describe(),
        "cluster_id": cluster_of(case.bench.source),
        "engine": case.evidence.engine,
        "groups": groups,
        "rules": rules,
        "unknown": unknown(case),
    }
    was = _before(case)
    return judged | {"changes": None if was is None else changes(case, was, judged)}


def unknown(case: Case) -> list[str]:
    """List what the report cannot know, in sentences."""
    evidence = case.evidence
    reasons = [reason for reason in evidence.lag.column("lag_reason").to_pylist() if reason]
    sentences = [
        f"The lag of {counted(reasons.count(reason), 'share partition')}: {REASONS[reason]}."
        for reason in sorted(set(reasons))
    ]
    if count := evidence.gaps.num_rows:
        sentences.append(
            f"What happened in {counted(count, 'place')} of the state topic: records are "
            "missing there, so rates are lower bounds."
        )
    if count := evidence.rejected:
        sentences.append(
            f"The contents of {counted(count, 'record')} that could not be decoded "
            "(sharelag decode shows them)."
        )
    if not evidence.settings.num_rows:
        sentences.append(
            "The settings in force: the input does not have them, and Kafka's defaults are assumed."
        )
    elif evidence.settings.column("value").null_count:
        sentences.append(
            "Some settings: the cluster does not reveal them, and Kafka's defaults are assumed."
        )
    if not evidence.groups.num_rows:
        sentences.append("Members and assignments: the input lacks the groups' own records.")
    if not evidence.past_offsets.num_rows:
        sentences.append(
            "Earlier end offsets of the topics, and so how fast records arrive and when the lag "
            "will be gone."
        )
    ages = evidence.progress.filter(
        pc.greater(evidence.progress.column("oldest_offset").fill_null(-1), -1)
    )
    if count := ages.column("age_ms").null_count:
        sentences.append(f"The age of the lag of {counted(count, 'share partition')}.")
    if case.bench.as_of is not None:
        sentences.append(
            "Settings, retention and last stable offsets at that moment: current ones are used."
        )
    return sentences


def _broken(case: Case) -> dict[str | None, list[dict[str, Any]]]:
    """Collect broken rules by group; None for those that concern no group."""
    found: dict[str | None, list[dict[str, Any]]] = {}
    for one in case.checked.to_pylist():
        if one["silenced_until"] is None and one["level"] != "ok":
            found.setdefault(one["group_id"], []).append(one)
    return found


def _before(case: Case) -> Mapping[str, Any] | None:
    """Return the previous verdict, if that report did not fail."""
    was = case.previous
    if was is None or was.get("level") not in CHECKED:
        return None
    if was.get("format") != FORMAT:
        raise InputError(
            "previous is not a verdict of this version: choose a verdict.json that this version "
            "wrote, or remove previous"
        )
    return was
