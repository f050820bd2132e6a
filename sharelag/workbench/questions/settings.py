"""Which settings are in force, and which have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.settings import choose_basis, setting_commands, settings_in_force
from sharelag.metrics.settings import settings_drift as settings_drift_rows
from sharelag.model.settings import differing
from sharelag.model.settings.catalogue import FIRST
from sharelag.model.settings.queues import queues_of
from sharelag.model.versions import Basis, given_or_told
from sharelag.tables import gaps, views
from sharelag.tables.words import counted
from sharelag.workbench.ask import question
from sharelag.workbench.resets import address_of
from sharelag.workbench.result import Result

if TYPE_CHECKING:
    from sharelag.workbench.opened import Opened, Tables


@question("settings", "nodes", any_group=True)
def settings(
    t: Tables,
    group: str | None = None,
    given: Mapping[str, object] | None = None,
    kafka_version: str | None = None,
) -> Result:
    """The settings in force, where they come from, and what conflicts."""
    source, known = t.bench.source, t.read.table("settings")
    there = sorted(pc.unique(t.read.table("lag").column("group_id")).to_pylist())
    groups, queues = [group] if group is not None else there, queues_of(given or {})
    if queues or (group is not None and group not in there):
        known = source.settings(groups, queues)
    brokers = t.read.table("nodes").num_rows or None
    by_input = source.kafka_version if given else None
    version, whose = given_or_told(kafka_version, by_input)
    judged = choose_basis(known, version, FIRST, whose)
    return _settings_answer(
        known, groups, given or {}, brokers, address_of(source), t.bench.base(t.read), judged,
        version is not None,
    )  # fmt: skip


@question("settings")
def settings_drift(t: Tables, before: Opened, group: str | None = None) -> Result:
    """The settings of groups and brokers that are not as they were in an earlier capture."""
    groups = {*before.groups, *t.bench.groups} if group is None else {group}
    then, now = (one.table("settings") for one in (before.reading, t.read))
    return _settings_drift_answer(settings_drift_rows(then, now, groups), t.bench.base(t.read))


def _settings_answer(
    known: pa.Table,
    groups: Sequence[str],
    given: Mapping[str, object],
    brokers: int | None,
    address: tuple[str | None, Path | None],
    base: Result,
    judged: Basis,
    is_told: bool,
) -> Result:
    """The settings in force of each group and of the brokers, of `sharelag.schemas.SETTINGS`."""
    values = {name: str(value) for name, value in given.items()}
    version = judged.version
    table = settings_in_force(known, groups, values, brokers, version)
    commands = setting_commands(table, values, groups, version, *address)
    said = [f"Checked as Kafka {judged}."]
    said += [] if is_told else [f"{one}." for one in differing(values, version)]
    return replace(
        base,
        title=f"Settings of {counted(len(groups), 'share group')} and their brokers",
        table=table,
        notes=(
            *(said if values or is_told else ()),
            *(f"Kafka's command: {command}" for command in commands),
        ),
        columns=views.SETTINGS.columns,
        order="problem",
        means=views.SETTINGS.means,
        unknown=gaps.of_settings(known, groups),
    )


def _settings_drift_answer(table: pa.Table, base: Result) -> Result:
    """The settings that are not as they were."""
    return replace(
        base,
        title="Settings that changed",
        table=table,
        columns=views.SETTINGS_DRIFT.columns,
        means=views.SETTINGS_DRIFT.means,
    )
