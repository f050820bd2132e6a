"""`Workbench`: every question about an input. Each is worked out once, and its answer kept."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError, SetupError, ShareLagError, unknown_topic
from sharelag.metrics.holders import with_holders
from sharelag.metrics.settings_drift import settings_drift
from sharelag.model import iso
from sharelag.reading import Each, named
from sharelag.replay.moment import Moment, parse_since, parse_time, with_zone
from sharelag.tables import render
from sharelag.whatif.from_cluster import scenario_from
from sharelag.wire.fields import STATE_TOPIC
from sharelag.workbench import answers, investigate, membership
from sharelag.workbench import engine as engines
from sharelag.workbench import rights as preflight
from sharelag.workbench.broker_metrics import metrics_answer
from sharelag.workbench.dead_letters import WithQueues
from sharelag.workbench.peeked import Mask, PeekedRecord, peek
from sharelag.workbench.planned import WithPlans
from sharelag.workbench.resets import address_of
from sharelag.workbench.result import NO_WIDGETS, Result
from sharelag.workbench.spans import span

if TYPE_CHECKING:
    from sharelag.whatif.scenario import Scenario
    from sharelag_widgets import WindowStrip
    from sharelag_widgets.dashboards import Now

#: Rows of a history that are brought into this process; its DataFrame has all.
MOST_ROWS = 20_000
#: Rows of a timeline that are brought into this process; its DataFrame has all.
MOST_TIMELINE_ROWS = 200_000
#: Moments of windows, when nobody says how many.
MOST_MOMENTS = 240
#: Windows of a past that are brought into this process.
MOST_WINDOWS = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class Workbench(WithQueues, WithPlans):
    """A cluster, or what was recorded of one, at a moment. Make one with `sharelag.open`.

    What was read once is kept, so that two answers never contradict each other; `refresh` gives a
    workbench that reads again. May be asked from several threads.
    """

    # ---- questions -------------------------------------------------------------------------------

    def lag(self, group: str | None = None, by: str | None = None) -> Result:
        """The lag of every share partition, or its sums by ``"group"`` or ``"topic"``."""
        sums = None if by is None else self._ask(("lag", by), lambda: self.reading.rollup(by))
        return answers.lag(self.evidence(group), by, self._base(), answers.only(sums, group))

    def windows(self, group: str | None = None) -> Result:
        """What the coordinator holds of every share partition."""
        evidence = self.evidence(group)
        table = self.choice.of(named(evidence.windows, evidence.lag))
        if len(evidence.holders):
            table = with_holders(table, evidence.holders)
        order = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]
        limit = None if group is None else answers.delivery_limit(evidence, group)
        return answers.windows(table.sort_by(order), self._base(), limit)

    def history(self, group: str | None = None, since: str | datetime | None = None) -> Result:
        """What happened to every share partition, record by record, from a time or span on."""
        evidence = self.evidence(group)
        begin = (
            parse_since(since, lambda: evidence.as_of, parse_time)
            if isinstance(since, str)
            else _time(since)
        )
        # What is few is read once for all groups; of many records each group has its own latest
        # ones.
        few = self.reading.counted.records <= MOST_ROWS
        mine = None if few else group
        rows = self._ask(
            ("history", begin, mine), lambda: self.reading.history(begin, MOST_ROWS, mine)
        )
        frame = self._frame(lambda read: read.history_frame(begin, group), rows.left_out)
        base = replace(self._base(), as_of=evidence.as_of, frame=frame, unknown=self._rejected())
        return answers.history(rows, group, base)

    def moments(self, group: str, topic: str | None = None, most: int = MOST_MOMENTS) -> Result:
        """The windows of a group after each of its records, for going back in time.

        Parameters
        ----------
        group : str
        topic : str, optional
            Only this one.
        most : int
            Moments; of more, as many that are evenly apart. Fewer where that were more than
            `MOST_WINDOWS` windows.

        Raises
        ------
        InputError
            The group or the topic is not known, or ``most`` is not a number above 0.
        """
        evidence = self.evidence(group)
        lag = evidence.lag
        if topic is not None:
            topics = lag.column("topic").to_pylist()
            if topic not in topics:
                raise InputError(unknown_topic(topic, topics, group))
            lag = lag.filter(pc.equal(lag.column("topic"), topic))
        if not isinstance(most, int) or most < 1:
            raise InputError(f"cannot show {most!r} moments: give a whole number above 0")
        most = max(min(most, MOST_WINDOWS // max(lag.num_rows, 1)), 1)
        table = self._ask(
            ("moments", group, topic, most), lambda: self.reading.windows_at(lag, most)
        )
        limit = answers.delivery_limit(evidence, group)
        return answers.windows(named(table, lag), self._base(), limit)

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
        given = {"limit": answers.delivery_limit(evidence, group), "ends": evidence.lag} | given
        moments = answers.worst_first(self.moments(group, topic).table, evidence, group)
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

    def windows_at(self, keys: pa.Table, moments: list[int]) -> pa.Table:
        """The windows of some share partitions at given moments; see `Reading.windows_at`."""
        question = ("windows at", tuple(map(tuple, keys.to_pydict().values())), tuple(moments))
        return self._ask(question, lambda: self.reading.windows_at(keys, moments))

    def over_history(self, question: Hashable, each: Each, schema: pa.Schema) -> pa.Table:
        """A function over whole histories, run once under this name. See `Reading.over_history`."""
        return self._ask(
            ("over history", question), lambda: self.reading.over_history(each, schema)
        )

    def timeline(
        self,
        group: str | None = None,
        every: str | float | timedelta | None = None,
        since: str | datetime | None = None,
    ) -> Result:
        """The lag of every share partition at regular moments.

        Parameters
        ----------
        group : str, optional
        every : timedelta, str or float, optional
            ``"5min"``, or seconds; else a sixtieth of the span that rates are of, or of that since
            ``since``, whichever is longer.
        since : str or datetime, optional
            The first moment; else as far back as `over`, and without ``every`` as rates look.
        """
        evidence = self.evidence(group)
        begin = parse_time(since) if isinstance(since, str) else since
        step = span(every) if every is not None else self._step()
        over = self.over if begin is None else None
        if every is None and begin is None:
            over = investigate.STEPS * step  # other groups' records may begin long before
        elif every is None and begin is not None:
            step = max(step, (evidence.as_of - begin) / investigate.STEPS)
        moments = investigate.regular_moments(self.reading, step, begin, over)
        # What is few is worked out once for all groups; of more each group has its own share
        # partitions.
        few = len(moments) * self.evidence().lag.num_rows <= MOST_TIMELINE_ROWS
        mine = None if few else group
        answer = self._ask(
            ("timeline", step, begin, mine),
            lambda: investigate.timeline_of(self.reading, moments, step, mine, MOST_TIMELINE_ROWS),
        )
        frame = self._frame(
            lambda read: investigate.timeline_frame(read, moments, step, group), answer.left_out
        )
        return answers.timeline(
            answer, step, group, replace(self._base(), as_of=evidence.as_of, frame=frame)
        )

    def events(self, group: str | None = None, since: str | datetime | None = None) -> Result:
        """What happened to share partitions: resets, new leaders, archived records, members.

        Parameters
        ----------
        group : str, optional
        since : str or datetime, optional
            A time; else as far back as `over`.
        """
        evidence = self.evidence(group)
        begin = parse_time(since) if isinstance(since, str) else since
        answer = self._ask(
            ("events", begin),
            lambda: investigate.events_of(self.reading, begin, self._step(), self.over),
        )
        base = replace(self._base(), as_of=evidence.as_of)
        return answers.events(answer, self._step(), group, base)

    def overview(self) -> Result:
        """How each group is, the worst first; the title says it in a sentence."""
        return answers.overview(self.evidence(), self.patience, self._base())

    def explain(self, group: str | None = None) -> Result:
        """Why there is lag: causes with their evidence, the most severe first."""
        return self._counted(answers.explained(self.evidence(group), self.patience, self._base()))

    def progress(self, group: str | None = None) -> Result:
        """How old the lag is, how fast it grows or drains, and how long its records are kept."""
        return self._counted(answers.progress(self.evidence(group), self._base()))

    def _counted(self, result: Result) -> Result:
        """A result with how members acknowledged records, by brokers' metrics."""
        said = () if self.metrics is None else self.metrics.words()
        return replace(result, notes=(*result.notes, *said))

    def imbalance(self, group: str | None = None, by: str | None = None) -> Result:
        """How unevenly load is spread.

        Parameters
        ----------
        group : str, optional
        by : {"partition", "topic", "member", "broker"}, optional
            Only the spread over these.
        """
        evidence = self.evidence(group)
        table = self._ask(("imbalance", by), lambda: self.reading.imbalance(by))
        rows, skew = (answers.only(found, group) for found in (table, self.skew()))
        return answers.imbalance(evidence, rows, skew, self._base(), by)

    def skew(self) -> pa.Table:
        """Where the lag of each group is concentrated, as `sharelag.metrics.skew.SKEW`."""
        return self._ask("balance", lambda: self.reading.skew())

    def designs(self, group: str | None = None) -> Result:
        """What the recorded history would cost in each design of durable share state."""
        from sharelag.whatif.designs import DESIGN_COSTS, design_costs

        evidence = self.evidence(group)
        costs = self._ask(
            ("designs", group),
            lambda: self.reading.over_records(design_costs, DESIGN_COSTS, evidence.lag),
        )
        return answers.designs(evidence, costs, self._base())

    def members(self, group: str | None = None) -> Result:
        """Who is in the groups, and which partitions each member has."""
        self.group_states(group)  # a group can have members before it has any state
        table = self._ask("members", lambda: membership.members_of(self.reading))
        evidence = answers.of_group(self.evidence(), group)
        return answers.members(answers.only(table, group), evidence, self._base())

    def group_states(self, group: str | None = None, states: Iterable[str] = ()) -> Result:
        """The state, epochs, members and lag of every group; ``states`` such as ``["Empty"]``."""
        table = self._ask("group states", lambda: membership.group_states_of(self.reading))
        if group is not None and group not in table.column("group_id").to_pylist():
            self._require(self.evidence(), group)
        found = membership.in_states(answers.only(table, group), states)
        return answers.group_states(found, self._base(), self.as_of is not None)

    def brokers(self, group: str | None = None) -> Result:
        """Which brokers lead the partitions of a group, and which keep their state."""
        self._require(self.evidence(), group)
        table = self._ask("brokers", lambda: self.reading.table("brokers"))
        return answers.brokers(answers.only(table, group), self._base())

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

    def health(self) -> Result:
        """How the state topic does, as of its last record."""
        (answer, findings), partitions = self._ask(
            "health",
            lambda: (
                investigate.health_of(self.reading),
                self.source.partitions(STATE_TOPIC),
            ),
        )
        return answers.health(answer, findings, self._base(gathered=False), partitions)

    def snapshots(self) -> Result:
        """The last snapshot of each share partition, and how many updates followed it.

        A new coordinator begins with that snapshot. The drafts of KIP-932 call it a checkpoint, and
        where it is the share checkpoint offset.
        """
        answer = self._ask("snapshots", lambda: investigate.snapshots_of(self.reading))
        return answers.snapshots(answer, self._base(gathered=False))

    def settings(
        self, group: str | None = None, given: Mapping[str, object] | None = None
    ) -> Result:
        """The settings in force, where they come from, and what conflicts.

        Parameters
        ----------
        group : str, optional
        given : mapping of name to value, optional
            Values to check as if they were set, by Kafka's names.

        Notes
        -----
        A group need not have any state: what a new group would have is shown. Values of groups that
        Kafka accepts come with the command that sets them; it is not run.
        """
        known = self.reading.table("settings")
        groups = [group] if group is not None else list(self.groups)
        if group is not None and group not in self.groups:
            known = self.source.settings(groups, [])
        brokers = self.reading.table("nodes").num_rows or None
        address = address_of(self.source)
        return answers.settings(known, groups, given or {}, brokers, address, self._base())

    def settings_drift(self, before: Workbench, group: str | None = None) -> Result:
        """The settings of groups and brokers that are not as they were in an earlier capture.

        Parameters
        ----------
        before : Workbench
            Of that capture, as `sharelag.open` gives it.
        group : str, optional
        """
        groups = {*before.groups, *self.groups} if group is None else {group}
        then, now = (bench.reading.table("settings") for bench in (before, self))
        return answers.drift_of_settings(settings_drift(then, now, groups), self._base())

    def reconcile(self, described: str | None = None, true: bool = False) -> Result:
        """The lag in several ways, and why they differ.

        Parameters
        ----------
        described : str, optional
            What ``kafka-share-groups.sh --describe --offsets`` printed.
        true : bool
            Read the whole backlog of a running cluster, and count the records in it.
        """
        answer = self._ask(
            ("reconcile", described, true),
            lambda: investigate.reconcile_of(self.reading, described, true),
        )
        return answers.reconciled(answer, described is not None, true, self._base(gathered=False))

    def diff(self, before: str | datetime) -> Result:
        """What changed since an earlier moment, or in the last time such as ``2h``."""
        table = self._ask(("diff", before), lambda: engines.diff_of(self.reading, before))
        return answers.diff(table, replace(self._base(), unknown=self._rejected()))

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


def _time(since: datetime | None) -> datetime | None:
    """A time with its zone, as `Workbench.history` takes it."""
    if since is not None and not isinstance(since, datetime):
        raise InputError(f"cannot begin at {since!r}: give a datetime, or a text such as 30m")
    with_zone(since)
    return since
