"""`Workbench`: every question about an input. Each is worked out once, and its answer kept."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sharelag.errors import InputError, SetupError, ShareLagError
from sharelag.model import iso
from sharelag.replay.moment import Moment
from sharelag.tables import render
from sharelag.whatif.from_cluster import scenario_from
from sharelag.workbench import rights as preflight
from sharelag.workbench.broker_metrics import metrics_answer
from sharelag.workbench.one_group import delivery_limit, worst_first
from sharelag.workbench.peeked import Mask, PeekedRecord, peek
from sharelag.workbench.questions.balance import WithBalance
from sharelag.workbench.questions.causes import WithCauses
from sharelag.workbench.questions.dead_letters import WithQueues
from sharelag.workbench.questions.history import WithHistory
from sharelag.workbench.questions.lag import WithLag
from sharelag.workbench.questions.planned import WithPlans
from sharelag.workbench.questions.settings import WithSettings
from sharelag.workbench.questions.state_topic import WithStateTopic
from sharelag.workbench.questions.timeline import WithTimeline
from sharelag.workbench.questions.windows import WithWindows
from sharelag.workbench.result import NO_WIDGETS, Result

if TYPE_CHECKING:
    from sharelag.whatif.scenario import Scenario
    from sharelag_widgets import WindowStrip
    from sharelag_widgets.dashboards import Now


@dataclass(frozen=True, eq=False, repr=False)
class Workbench(
    WithLag,
    WithWindows,
    WithHistory,
    WithTimeline,
    WithCauses,
    WithBalance,
    WithStateTopic,
    WithSettings,
    WithQueues,
    WithPlans,
):
    """A cluster, or what was recorded of one, at a moment. Make one with `sharelag.open`.

    What was read once is kept, so that two answers never contradict each other; `refresh` gives a
    workbench that reads again. May be asked from several threads.
    """

    # ---- questions -------------------------------------------------------------------------------

    def strip(
        self, group: str | None = None, topic: str | None = None, **given: Any
    ) -> WindowStrip:
        """The windows of a group offset by offset, as a widget that goes back in time.

        It begins with the share partition that the first cause names, else with the most lag.

        Parameters
        ----------
        group : str, optional
            Else the one with the most lag.
        topic : str, optional
            Only this one.
        **given
            As for `sharelag_widgets.WindowStrip.of`, such as ``selection``.

        Raises
        ------
        SetupError
            The widgets are not installed.
        """
        try:
            from sharelag_widgets import WindowStrip
        except ImportError as error:
            raise SetupError(NO_WIDGETS) from error
        group = self._largest() if group is None else group
        evidence = self.evidence(group)
        given = {"limit": delivery_limit(evidence, group), "ends": evidence.lag} | given
        moments = worst_first(self.moments(group, topic).table, evidence, group)
        return WindowStrip.of(moments, **given)

    def _largest(self) -> str:
        """The group with the most lag that is known.

        Raises
        ------
        InputError
            No group has any state.
        """
        rows = self.lag(by="group").table.select(["group_id", "lag"]).to_pylist()
        if not rows:
            raise InputError(
                f"no share group has any state in {self.describe()}: check that one has "
                "consumed there"
            )
        return str(max(rows, key=lambda row: row["lag"] or 0)["group_id"])

    def peek(
        self, group: str, topic: str, partition: int, offset: int, mask: Mask = ()
    ) -> PeekedRecord:
        """The record at an offset with its state in the group; of a running cluster only.

        It is read by a consumer that joins no group and commits nothing. Nothing keeps it.

        Parameters
        ----------
        group, topic : str
        partition, offset : int
        mask : iterable of str, or callable
            Fields of JSON to hide, such as ``card.number``; or a function of what was read from
            JSON. What is not JSON is hidden whole then.

        Raises
        ------
        InputError
            There is no such record, the group has no state of the partition, or the input has no
            records of topics.
        """
        whole = self.is_gathered
        evidence = self.evidence(group) if whole else self._state(group, "windows")
        place = (group, topic, partition, offset)
        return peek(self.source, evidence.lag, evidence.windows, place, mask)

    def dashboard(self, group: str | None = None, **given: Any) -> Now:
        """How the groups are now, the worst first, and one of them in detail, as a dashboard.

        Parameters
        ----------
        group : str, optional
            Else the one with the most lag.
        **given
            As for `sharelag_widgets.dashboards.Now`, such as ``selection``.

        Raises
        ------
        SetupError
            The widgets are not installed.
        """
        try:
            from sharelag_widgets.dashboards import Now
        except ImportError as error:
            raise SetupError(NO_WIDGETS) from error
        return Now(self, group, **given)

    def broker_metrics(self, group: str | None = None, everything: bool = False) -> Result:
        """What brokers measure themselves, of the places that `sharelag.open` was given.

        Parameters
        ----------
        group : str, optional
            Only the figures of this one; acknowledgements are counted of all groups together.
        everything : bool
            Also figures that are not about share groups.

        Raises
        ------
        InputError
            No place was given, or one cannot be read.
        """
        if self.metrics is None:
            raise InputError(
                "no metrics of brokers were given: use sharelag.open(..., broker_metrics=PLACE)"
            )
        return metrics_answer(self.metrics, group, everything)

    def rights(
        self,
        group: str | None = None,
        topic: str | None = None,
        principal: str | None = None,
        super_users: Collection[str] | None = None,
    ) -> Result:
        """Which rights each command needs on the cluster, and which of them we have.

        Parameters
        ----------
        group, topic : str, optional
            Only those on this one; by default on each group and topic of the share state.
        principal : str, optional
            Somebody else, such as ``User:alice``, judged by the rules that the cluster lists.
        super_users : collection of str, optional
            Those of the brokers' setting ``super.users``, which brokers do not show: without it
            what the rules do not allow to somebody else is unknown where there may be any.

        Raises
        ------
        InputError
            The input is not a running cluster, a principal has no type, or ``super_users`` are
            given without a principal.
        """
        groups = [group] if group is not None else sorted(self.choice.groups)
        topics = [topic] if topic is not None else sorted(self.choice.topics)
        (table, unknown), at = self._ask(
            ("rights", *groups, None, *topics, principal, None, *(super_users or ())),
            lambda: (
                preflight.rights_of(self.source, groups, topics, principal, super_users),
                datetime.now(UTC),
            ),
        )
        base = Result("", table, {}, at, self.describe())
        return preflight.rights_answer(table, unknown, principal, base)

    def scenario(self, group: str | None = None, **given: Any) -> Scenario:
        """A simulation that begins where a group is; see `sharelag.whatif.from_cluster`."""
        return scenario_from(self.evidence(group), group, **given)

    # ---- how it shows itself ---------------------------------------------------------------------

    def __repr__(self) -> str:
        when = "" if self.as_of is None else f", as of {_moment_text(self.as_of)}"
        chosen = f", groups {', '.join(sorted(self.choice.groups))}" if self.choice.groups else ""
        generation = self.choice.generation
        tried = "" if generation is None else f", records read as G{generation}"
        return f"<sharelag workbench: {self.describe()}{when}{chosen}{tried}, {self.engine} engine>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Somebody looks at it: what is open, and its groups. A cluster that does not answer shows
        # no stack trace.
        try:
            groups = replace(
                self.lag(by="group"), title=self.about or f"Share groups of {self.describe()}"
            )
        except ShareLagError as error:
            return render.failure(self.describe(), str(error))
        return {"text/plain": groups.to_text(), "text/html": groups.to_html()}


def _moment_text(moment: Moment) -> str:
    if isinstance(moment, datetime):
        return iso(moment)
    return ",".join(f"{partition}:{offset}" for partition, offset in (moment or {}).items())
