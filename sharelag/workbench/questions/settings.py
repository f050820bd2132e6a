"""Settings in force, and their changes."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.metrics.settings import choose_basis, setting_commands, settings_in_force
from sharelag.metrics.settings import settings_drift as settings_drift_rows
from sharelag.model.settings import differing
from sharelag.model.settings.catalogue import FIRST
from sharelag.model.settings.queues import queues_of
from sharelag.model.versions import given_or_own
from sharelag.tables import gaps, views
from sharelag.tables.words import pluralize
from sharelag.workbench.ask import question
from sharelag.workbench.base import Opened, Tables
from sharelag.workbench.next_steps import address_of
from sharelag.workbench.result import Result


@question("settings", "nodes", any_group=True)
def settings(
    t: Tables,
    group: str | None = None,
    given: Mapping[str, object] | None = None,
    kafka_version: str | None = None,
) -> Result:
    """Return the settings in force, where they come from, and what conflicts."""
    source, known = t.bench.source, t.read.table("settings")
    there = sorted(pc.unique(t.read.table("lag").column("group_id")).to_pylist())
    groups, queues = [group] if group is not None else there, queues_of(given or {})
    if queues or (group is not None and group not in there):
        known = source.settings(groups, queues)
    brokers = t.read.table("nodes").num_rows or None
    version, whose = given_or_own(kafka_version, source.kafka_version)
    judged = choose_basis(known, version, FIRST, whose)
    values = {name: str(value) for name, value in (given or {}).items()}
    table = settings_in_force(known, groups, values, brokers, judged.version)
    commands = setting_commands(table, values, groups, judged.version, *address_of(source))
    notes = [f"Checked as Kafka {judged}."]
    if version is None:
        notes += [f"{one}." for one in differing(values, judged.version)]
    return t.bench.base(t.read).answer(
        f"Settings of {pluralize(len(groups), 'share group')} and their brokers",
        table,
        views.SETTINGS,
        "problem",
        notes=(
            *(notes if values or kafka_version is not None else ()),
            *(f"Kafka's command: {command}" for command in commands),
        ),
        unknown=gaps.of_settings(known, groups),
    )


@question("settings")
def settings_drift(t: Tables, before: Opened, group: str | None = None) -> Result:
    """Return the settings of groups and brokers that differ from an earlier capture."""
    if not isinstance(before, Opened):
        raise InputError(f"cannot compare with {before!r}: open the earlier capture first")
    groups = {*before.groups, *t.bench.groups} if group is None else {group}
    then, now = (one.table("settings") for one in (before.reading, t.read))
    table = settings_drift_rows(then, now, groups)
    earlier = before.base(before.reading)
    unknown = *gaps.of_settings(then), *gaps.of_settings(now), *earlier.unknown
    return t.bench.base(t.read).answer(
        "Settings that changed", table, views.SETTINGS_DRIFT, unknown=unknown, lacks=earlier.lacks
    )
