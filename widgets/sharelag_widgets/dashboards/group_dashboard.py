"""The base of dashboards of one group: a choice of the group that follows selections."""

from __future__ import annotations

from typing import Any

from sharelag.errors import InputError
from sharelag.workbench import Workbench
from sharelag.workbench.charts import text

from .dashboard import Dashboard
from .finder import Finder

#: Columns that a table of one group need not have.
IN_A_GROUP = ("group_id", "leader_epoch")


class GroupDashboard(Dashboard):
    """A dashboard of one group at a time.

    Parameters
    ----------
    bench : Workbench
    group : str, optional
        Else the one with the most lag.
    **options
        As for `Dashboard`.
    """

    def __init__(self, bench: Workbench, group: str | None = None, **options: Any) -> None:
        self._asked = group
        super().__init__(bench, **options)

    @property
    def group(self) -> str | None:
        """The group that is shown; set it to show another."""
        chosen: str | None = self._asked if self._asked is not None else self.groups.value
        return chosen

    @group.setter
    def group(self, group: str) -> None:
        self._asked = group
        self.show()

    def _group_choice(self) -> Finder:
        self.groups = Finder(label="Group")
        self.groups.observe(self._picked_group, names=["value"])
        return self.groups

    def _picked_group(self, change: Any) -> None:
        if change["new"] is not None and not self._filling:
            self._asked, self._filling = change["new"], True
            self.selection.clear()
            self._filling = False
            self.show()

    def _on_pick(self, change: Any) -> None:
        """Share partitions of another group are picked in a linked dashboard: show that group."""
        if self._filling:
            return
        groups = {key[0] for key in change["new"]}
        if len(groups) == 1 and groups != {self._asked}:
            self.group = groups.pop()
        else:
            super()._on_pick(change)

    _filling = False

    def _prepare(self, bench: Workbench) -> None:
        if self.group in bench.groups:  # else what is shown says that it is gone
            self._prepare_group(bench, str(self.group))

    def _prepare_group(self, bench: Workbench, group: str) -> None:
        """The same for the group that is shown."""

    def _known_group(self) -> str:
        """The group to show, with all there are to choose from.

        Raises
        ------
        InputError
            There is no such group, or none at all.
        """
        sums = self.bench.lag(by="group").table
        there = sums.column("group_id").to_pylist()
        if self._asked is None and there:
            self._asked = self._first_group()
        if not there:
            raise InputError(
                f"no share group has any state in {self.bench.describe()}: check that one has "
                "consumed there"
            )
        self._filling = True
        try:
            if self.groups.options != tuple(there):
                self.groups.options = there
            self.groups.value = self._asked if self._asked in there else None
        finally:
            self._filling = False
        self.bench.evidence(self._asked)
        self.header.title = self._title()
        return str(self._asked)

    def _title(self) -> str:
        return f"{self.TITLE}: {text.name(self._asked, None)}"

    def _first_group(self) -> str:
        """The group that is shown where nobody chose one: the one with the most lag."""
        sums = self.bench.lag(by="group").table
        lags = [lag or 0 for lag in sums.column("lag").to_pylist()]
        return str(sums.column("group_id")[lags.index(max(lags))])
