"""Which settings are in force, and which have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sharelag.metrics.setting_commands import kafkas_settings_commands
from sharelag.metrics.settings_drift import settings_drift
from sharelag.metrics.settings_in_force import judged_as, settings_in_force
from sharelag.model.settings import differing
from sharelag.model.settings.catalogue import FIRST
from sharelag.model.settings.queues import queues_of
from sharelag.model.versions import Basis, given_or_told
from sharelag.tables import gaps, views
from sharelag.workbench.charts import text
from sharelag.workbench.opened import Opened
from sharelag.workbench.resets import address_of
from sharelag.workbench.result import Result


class WithSettings(Opened):
    """Questions about settings."""

    def settings(
        self,
        group: str | None = None,
        given: Mapping[str, object] | None = None,
        *,
        kafka_version: str | None = None,
    ) -> Result:
        """The settings in force, where they come from, and what conflicts.

        Parameters
        ----------
        group : str, optional
        given : mapping of name to value, optional
            Values to check as if they were set, by Kafka's names.
        kafka_version : str, optional
            To judge by, such as ``4.3.1``; else that of the input, or where it is not known one
            that its settings are of.

        Raises
        ------
        InputError
            ``kafka_version`` is not a version of Kafka.

        Notes
        -----
        A group need not have any state: what a new group would have is shown. Values of groups that
        Kafka accepts come with the command that sets them; it is not run.
        """
        known = self.reading.table("settings")
        groups = [group] if group is not None else list(self.groups)
        queues = queues_of(given or {})
        if queues or (group is not None and group not in self.groups):
            known = self.source.settings(groups, queues)
        brokers = self.reading.table("nodes").num_rows or None
        address = address_of(self.source)
        by_input = self.source.kafka_version if given else None
        version, whose = given_or_told(kafka_version, by_input)
        judged = judged_as(known, version, FIRST, whose)
        base, is_told = self._base(), version is not None
        return _settings_answer(known, groups, given or {}, brokers, address, base, judged, is_told)

    def settings_drift(self, before: Opened, group: str | None = None) -> Result:
        """The settings of groups and brokers that are not as they were in an earlier capture.

        Parameters
        ----------
        before : Workbench
            Of that capture, as `sharelag.open` gives it.
        group : str, optional
        """
        groups = {*before.groups, *self.groups} if group is None else {group}
        then, now = (bench.reading.table("settings") for bench in (before, self))
        return _settings_drift_answer(settings_drift(then, now, groups), self._base())


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
    commands = kafkas_settings_commands(table, values, groups, version, *address)
    said = [f"Checked as Kafka {judged}."]
    said += [] if is_told else [f"{one}." for one in differing(values, version)]
    return replace(
        base,
        title=f"Settings of {text.counted(len(groups), 'share group')} and their brokers",
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
