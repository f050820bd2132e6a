"""`Workbench`: every question about an input. Answers are computed once and cached."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from sharelag.durations import parse_span
from sharelag.engine import Each
from sharelag.errors import InputError, ShareLagError
from sharelag.model import iso
from sharelag.model.versions import require_version
from sharelag.replay.moment import Moment
from sharelag.tables import render
from sharelag.tables.views import RIGHTS
from sharelag.whatif.from_cluster import scenario_from
from sharelag.whatif.horizon import Wanted, members_wanted
from sharelag.whatif.past import Past
from sharelag.whatif.scenario import Scenario, Service
from sharelag.workbench import rights as preflight
from sharelag.workbench.base import Opened, delivery_limit, worst_first
from sharelag.workbench.pasts import gather_past
from sharelag.workbench.peek import Mask, PeekedRecord, peek
from sharelag.workbench.questions.forecasts import place_of
from sharelag.workbench.questions.lag import MOST_MOMENTS
from sharelag.workbench.questions.planned import Target, require_target
from sharelag.workbench.questions.timeline import trends
from sharelag.workbench.result import Dashboard, Result, Strip, load_view
from sharelag.workbench.side_inputs import metrics_answer

_BESIDE_QUESTIONS = (
    *("as_of", "at", "close", "describe", "evidence", "frames", "groups", "only", "refresh"),
    *("request_frame", "source", "sql"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Workbench(Opened):
    """A cluster or a capture at one moment. Make one with `sharelag.open`.

    Tables are read once, so answers never contradict each other; `refresh` returns a workbench that
    reads again. Methods are thread-safe. Those that take a ``group`` answer for all groups by
    default, and raise `sharelag.errors.InputError` if the group does not exist.
    """

    # ---- questions -------------------------------------------------------------------------------

    def overview(self) -> Result:
        """Return the state of each group, worst first, as `sharelag.schemas.OVERVIEW`.

        The title says it in a sentence.
        """
        return self.ask("overview")

    def lag(
        self, group: str | None = None, by: str | None = None, *, brief: bool = False
    ) -> Result:
        """Return the lag of share partitions with its terms, or its sums (KIP-1226).

        It needs only windows and end offsets; `progress` has the age of the lag.

        Parameters
        ----------
        group : str, optional
            Restrict the answer to this group.
        by : {"group", "topic"}, optional
            Sums by group, or by group and topic.
        brief : bool
            Restrict the columns to the terms of Kafka's own lag.

        Returns
        -------
        Result
            `sharelag.schemas.LAG`, one row per share partition; with ``by``
            `sharelag.schemas.ROLLUP`. An unknown lag is null, with a reason.

        Raises
        ------
        InputError
            There is no such group.
        """
        return self.ask("lag", group=group, by=by, brief=brief)

    def reconcile(self, described: str | None = None, true: bool = False) -> Result:
        """Return the lag by several definitions, and why they differ.

        Parameters
        ----------
        described : str, optional
            Output of ``kafka-share-groups.sh --describe --offsets``.
        true : bool
            Read the whole backlog of a running cluster and count its records.

        Returns
        -------
        Result
            `sharelag.schemas.RECONCILED`, one row per share partition.

        Raises
        ------
        InputError
            The input has no backlog to read, or the text is not the command's output.
        """
        return self.ask("reconcile", described=described, true=true)

    def explain(self, group: str | None = None) -> Result:
        """Return why groups lag, the most severe cause first, as `sharelag.schemas.CAUSES`.

        Its summaries describe each group in a sentence, including groups without a cause.
        """
        return self.ask("explain", group=group)

    def progress(self, group: str | None = None) -> Result:
        """Return the age of the lag, its drain rate and the retention of its records.

        As `sharelag.schemas.PROGRESS`, one row per share partition.
        """
        return self.ask("progress", group=group)

    def forecasts(self, ledger: str | Path, horizon: str | timedelta = "5m") -> Result:
        """Forecast the age and drain of the lag, and score the forecasts that are due.

        As `sharelag.schemas.FORECASTS`; its notes say how often such forecasts came true.

        Parameters
        ----------
        ledger : str or path
            The folder of that table, one per cluster; created if missing.
        horizon : str or timedelta
            How far ahead to forecast; a drain that takes longer is not forecast.

        Raises
        ------
        InputError
            deltalake or scoringrules is not installed, or the table cannot be read or written.
        """
        return self.ask("forecasts", ledger=place_of(ledger), horizon=parse_span(horizon))

    def windows(self, group: str | None = None) -> Result:
        """Return the windows of share partitions, as `sharelag.schemas.WINDOWS` with topic names.

        With a request log, its ``notes`` list the members that hold acquisition locks.
        """
        return self.ask("windows", group=group)

    def moments(self, group: str, topic: str | None = None, most: int = MOST_MOMENTS) -> Result:
        """Return the windows of a group after each of its records.

        Parameters
        ----------
        group : str
        topic : str, optional
            Restrict the answer to this topic.
        most : int
            Maximum number of moments, evenly spaced, with at most
            `sharelag.workbench.questions.lag.MOST_WINDOWS` windows together.

        Returns
        -------
        Result
            `sharelag.schemas.WINDOWS` with ``topic`` and ``as_of``.

        Raises
        ------
        InputError
            The group or the topic is not known, or ``most`` is not a number above 0.
        """
        return self.ask("moments", group=group, topic=topic, most=most)

    def windows_at(self, keys: pa.Table, moments: list[int]) -> pa.Table:
        """Return the windows of share partitions at moments; see `Reading.windows_at`."""
        question = ("windows at", tuple(map(tuple, keys.to_pydict().values())), tuple(moments))
        return self.keep(question, lambda: self.reading.windows_at(keys, moments))

    def history(self, group: str | None = None, since: str | datetime | None = None) -> Result:
        """Return the changes of share partitions, record by record.

        Parameters
        ----------
        group : str, optional
            Restrict the answer to this group.
        since : str or datetime, optional
            The first moment: a time, or a duration before the end such as ``30m``.

        Returns
        -------
        Result
            `sharelag.schemas.HISTORY`, the latest rows of it; ``to_spark()`` has all.
        """
        return self.ask("history", group=group, since=since)

    def over_history(self, question: Hashable, each: Each, schema: pa.Schema) -> pa.Table:
        """Run a function over whole histories, once per question; see `over_own_history`."""
        return self.keep(
            ("over history", question), lambda: self.reading.over_own_history(each, schema)
        )

    def diff(self, before: str | datetime) -> Result:
        """Return the changes since a moment, or within the last duration such as ``2h``.

        As `sharelag.schemas.DIFF`, one row per share partition.
        """
        return self.ask("diff", before=before)

    def timeline(
        self,
        group: str | None = None,
        every: str | float | timedelta | None = None,
        since: str | datetime | None = None,
    ) -> Result:
        """Return the lag of every share partition at regular moments.

        Parameters
        ----------
        group : str, optional
            Restrict the answer to this group.
        every : timedelta, str or float, optional
            ``"5min"``, or seconds. Default: a 60th of the span of rates, or since ``since`` if
            longer.
        since : str or datetime, optional
            The first moment. Default: as far back as `over`, and without ``every`` as rates look.

        Returns
        -------
        Result
            `sharelag.schemas.TIMELINE`, one row per share partition and moment.
        """
        return self.ask("timeline", group=group, every=every, since=since)

    def trends(self) -> pa.Table:
        """Return the lag of each group at the moments of `timeline`: ``group_id as_of lag``."""
        return trends(self)

    def events(self, group: str | None = None, since: str | datetime | None = None) -> Result:
        """Return resets, new leaders, archived records and members, as `sharelag.schemas.EVENTS`.

        ``since`` is a time; without it, events go as far back as `over`.
        """
        return self.ask("events", group=group, since=since)

    def imbalance(self, group: str | None = None, by: str | None = None) -> Result:
        """Return the imbalance of load.

        Parameters
        ----------
        group : str, optional
            Restrict the answer to this group.
        by : {"partition", "topic", "member", "broker"}, optional
            Restrict the answer to the spread over these.

        Returns
        -------
        Result
            `sharelag.schemas.IMBALANCE`, one row per group and measure.
        """
        return self.ask("imbalance", group=group, by=by)

    def skew(self) -> pa.Table:
        """Return where each group's lag is concentrated, as `sharelag.metrics.imbalance.SKEW`."""
        return self.ask("skew").table

    def members(self, group: str | None = None) -> Result:
        """Return the members of the groups and the partitions assigned to each.

        As `sharelag.schemas.MEMBER_ROWS`.
        """
        return self.ask("members", group=group)

    def group_states(self, group: str | None = None, states: str | Iterable[str] = ()) -> Result:
        """Return the state, epochs, members and lag of every group.

        As `sharelag.schemas.GROUP_STATES`; ``states`` restricts it to groups in these states,
        such as ``["Empty"]``.
        """
        chosen = (states,) if isinstance(states, str) else tuple(states)
        return self.ask("group_states", group=group, states=chosen)

    def brokers(self, group: str | None = None) -> Result:
        """Return the brokers that lead the partitions of groups and coordinate their state.

        As `sharelag.schemas.BROKERS`, one row per share partition.
        """
        return self.ask("brokers", group=group)

    def health(self) -> Result:
        """Return the health of the state topic, as `sharelag.schemas.HEALTH`."""
        return self.ask("health")

    def snapshots(self) -> Result:
        """Return the last snapshot of each share partition, and the updates that followed it.

        As `sharelag.schemas.SNAPSHOTS`. A new coordinator begins with that snapshot; the drafts of
        KIP-932 call it a checkpoint, and where it is the share checkpoint offset.
        """
        return self.ask("snapshots")

    def designs(self, group: str | None = None) -> Result:
        """Return the cost of the history in each design of share state, by group."""
        return self.ask("designs", group=group)

    def dead_letters(
        self, group: str | None = None, queue: Any = None, statuses: tuple[str, ...] = ()
    ) -> Result:
        """Return archived offsets, and which are in the dead-letter queue (KIP-1191).

        Parameters
        ----------
        group : str, optional
            Default: all groups. Letters of other groups in the same queue are left out.
        queue : str, pathlib.Path, DataFrame of Spark, pandas or polars, or Arrow table, optional
            Topic of the queue, Parquet files, or records with the columns of Spark's Kafka source
            and ``headers``. Default: the topic that the group's setting names. No payload is shown.
        statuses : tuple of str
            Restrict the answer to these statuses; empty: all.

        Returns
        -------
        Result
            `sharelag.schemas.LEDGER`, rows that need attention first; ``to_spark()`` has all.

        Raises
        ------
        InputError
            The group is not known, it has no queue, or the queue cannot be read.
        """
        return self.ask("dead_letters", group=group, queue=queue, statuses=statuses)

    def redrive(
        self, group: str | None = None, queue: Any = None, statuses: tuple[str, ...] = ()
    ) -> Result:
        """Return how archived records could be sent again; nothing is sent.

        Parameters
        ----------
        group, queue
            As for `dead_letters`.
        statuses : tuple of str
            Values of its column ``status``; empty: written, duplicate, missing and passed.

        Returns
        -------
        Result
            `sharelag.schemas.REDRIVE`, one row per run of offsets.

        Raises
        ------
        InputError
            As for `dead_letters`, or a status does not exist.
        """
        return self.ask("redrive", group=group, queue=queue, statuses=statuses)

    def settings(
        self,
        group: str | None = None,
        given: Mapping[str, object] | None = None,
        *,
        kafka_version: str | None = None,
    ) -> Result:
        """Return the settings in force, where they come from, and what conflicts.

        A group need not have any state: what a new group would have is shown. Values of groups that
        Kafka accepts come with the command that sets them; it is not run.

        Parameters
        ----------
        group : str, optional
            Restrict the answer to this group.
        given : mapping of name to value, optional
            Values to check as if they were set, by Kafka's names.
        kafka_version : str, optional
            Kafka version to check against, such as ``4.3.1``. Default: that of the input or, if it
            is unknown, one that its settings belong to.

        Returns
        -------
        Result
            One row per setting of each group and of the brokers.

        Raises
        ------
        InputError
            ``kafka_version`` is not a version of Kafka.
        """
        return self.ask("settings", group=group, given=given, kafka_version=kafka_version)

    def settings_drift(self, before: Opened, group: str | None = None) -> Result:
        """Return the settings that differ from an earlier capture, opened as ``before``."""
        return self.ask("settings_drift", before=before, group=group)

    def plan_reset(
        self,
        group: str,
        to: Target = None,
        *,
        shift_by: int | None = None,
        topic: str | Sequence[str] = (),
        local_offsets: str | Path | None = None,
        simulate: bool = False,
        members: int | None = None,
        kafka_version: str | None = None,
    ) -> Result:
        """Plan a reset of a group's start offsets; nothing is written.

        Parameters
        ----------
        group : str
        to : "earliest", "latest", int, datetime or timedelta, optional
            The start or the end of each log, one offset for all, or the first record written at or
            after that time, or at most that long before.
        shift_by : int
            Number of offsets to shift by, from the first unfinished one; negative: backwards.
            Excludes ``to``.
        topic : str or sequence of str
            Restrict the reset to these, or with ``orders:0,2`` to these partitions. On a running
            cluster the group need not have any state of them.
        local_offsets : str or pathlib.Path, optional
            File with the output of ``kafka-get-offsets.sh --time earliest-local``, to warn of reads
            from remote storage.
        simulate : bool
            Also simulate how long the group would take, at the current rates.
        members : int, optional
            Members of the simulation. Default: as many as there are now.
        kafka_version : str, optional
            Version of Kafka's command, such as ``4.3.1``. Default: that of the input or, if it is
            unknown, one that its settings belong to.

        Raises
        ------
        InputError
            ``to`` is something else, or not exactly one of the two is given; there is no such
            topic or partition; a simulation has no members, or would take too long.
        """
        to = require_target(to, shift_by)
        require_version(kafka_version)
        topics = (topic,) if isinstance(topic, str) else tuple(topic)
        return self.ask(
            "plan_reset", group=group, to=to, shift_by=shift_by, topics=topics,
            local_offsets=local_offsets, simulate=simulate, members=members,
            kafka_version=kafka_version,
        )  # fmt: skip

    def plan_delete(
        self,
        group: str,
        topics: str | Sequence[str] = (),
        *,
        simulate: bool = False,
        members: int | None = None,
        kafka_version: str | None = None,
    ) -> Result:
        """Plan a deletion of a group, or of its offsets of topics; nothing is written.

        Parameters
        ----------
        group : str
        topics : str or sequence of str
            Delete only the offsets of these; without any, the group is deleted.
        simulate, members, kafka_version
            As for `plan_reset`.

        Returns
        -------
        Result
            `sharelag.schemas.RESET_PLAN`: the start offsets that members would get if they rejoined
            at once, by the group's ``share.auto.offset.reset``.

        Raises
        ------
        InputError
            The group has no state of a topic; a simulation has no members, or would take too long.
        """
        require_version(kafka_version)
        topics = (topics,) if isinstance(topics, str) else tuple(topics)
        return self.ask(
            "plan_delete", group=group, topics=topics, simulate=simulate, members=members,
            kafka_version=kafka_version,
        )  # fmt: skip

    def strip(self, group: str | None = None, topic: str | None = None, **given: Any) -> Strip:
        """Return the windows of a group offset by offset, as a widget that goes back in time.

        It shows the share partition of the first cause, or else the one with the most lag.

        Parameters
        ----------
        group : str, optional
            Default: the group with the most lag.
        topic : str, optional
            Restrict the view to this topic.
        **given
            As for `sharelag_widgets.WindowStrip.of`, such as ``selection``.

        Raises
        ------
        SetupError
            The widgets are not installed.
        """
        view = load_view("WindowStrip")
        group = self._largest() if group is None else group
        evidence = self.evidence(group)
        given = {"limit": delivery_limit(evidence.settings, group), "ends": evidence.lag} | given
        moments = worst_first(self.moments(group, topic).table, evidence, group)
        shown: Strip = view.of(moments, **given)
        return shown

    def _largest(self) -> str:
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
        """Return the record at an offset of a running cluster, with its state in the group.

        It is read by a consumer that joins no group and commits nothing, and is not cached.

        Parameters
        ----------
        group, topic : str
        partition, offset : int
        mask : iterable of str, or callable
            JSON fields to hide, such as ``card.number``, or a function of the parsed JSON. Payloads
            that are not JSON are then hidden entirely.

        Raises
        ------
        InputError
            There is no such record, the group has no state of the partition, or the input has no
            records of topics.
        """
        whole = self.is_gathered
        evidence = self.evidence(group) if whole else self.state_of(group, "windows")
        place = (group, topic, partition, offset)
        return peek(self.source, evidence.lag, evidence.windows, place, mask)

    def dashboard(self, group: str | None = None, **given: Any) -> Dashboard:
        """Return a dashboard of all groups now, worst first, with one group in detail.

        Parameters
        ----------
        group : str, optional
            Default: the group with the most lag.
        **given
            As for `sharelag_widgets.dashboards.Now`, such as ``selection``.

        Raises
        ------
        SetupError
            The widgets are not installed.
        """
        shown: Dashboard = load_view("Now")(self, group, **given)
        return shown

    def broker_metrics(self, group: str | None = None, everything: bool = False) -> Result:
        """Return the brokers' own metrics, from the endpoints that `sharelag.open` was given.

        Parameters
        ----------
        group : str, optional
            Restrict the metrics to this group; acknowledgements count for all groups together.
        everything : bool
            Include metrics that are not about share groups.

        Raises
        ------
        InputError
            No endpoint was given, or one cannot be read.
        """
        if self.metrics is None:
            raise InputError(
                "no metrics of brokers were given: use sharelag.open(..., broker_metrics=PLACE)"
            )
        return metrics_answer(self.metrics, None if group is None else {group}, everything)

    def rights(
        self,
        group: str | None = None,
        topic: str | None = None,
        principal: str | None = None,
        super_users: Collection[str] | None = None,
    ) -> Result:
        """Return the rights that each command needs on the cluster, and which are granted.

        Parameters
        ----------
        group, topic : str, optional
            Restrict the rights to these. Default: each group and topic of the share state.
        principal : str, optional
            Another principal, such as ``User:alice``, judged by the ACLs that the cluster lists.
        super_users : collection of str, optional
            The brokers' setting ``super.users``, which brokers do not show. Without it, rights that
            the ACLs do not allow to another principal are unknown, as it may be a super user.

        Raises
        ------
        InputError
            The input is not a running cluster, a principal has no type, or ``super_users`` are
            given without a principal.
        """
        groups = [group] if group is not None else sorted(self.choice.groups)
        topics = [topic] if topic is not None else sorted(self.choice.topics)
        (table, unknown), at = self.keep(
            ("rights", *groups, None, *topics, principal, None, *(super_users or ())),
            lambda: (
                preflight.rights_of(self.source, groups, topics, principal, super_users),
                datetime.now(UTC),
            ),
        )
        return Result(
            f"What may {principal or 'we'} do on this cluster?",
            table,
            RIGHTS.columns,
            at,
            self.describe(),
            notes=preflight.in_words(table, principal is not None),
            unknown=unknown,
        )

    def scenario(self, group: str | None = None, **given: Any) -> Scenario:
        """Return a scenario from a group's present state; see `sharelag.whatif.from_cluster`."""
        return scenario_from(self.evidence(group), group, **given)

    def members_wanted(self, group: str | None = None, goal: str = "30s") -> Wanted:
        """Return the fewest members that keep a group's records younger than a goal, and why.

        For its parameters and errors see `sharelag.whatif.members_wanted`.
        """
        return members_wanted(self.evidence(group), group, goal)

    def past(
        self,
        group: str | None = None,
        *,
        since: str | datetime,
        until: str | datetime | None = None,
        service: Service | None = None,
    ) -> Past:
        """Return a span of a group's history, to simulate as it was and with changes.

        ``sharelag.whatif.otherwise(past, variants(past.scenario, members=12))`` simulates both.

        Parameters
        ----------
        group : str, optional
            May be omitted if there is only one.
        since : str or datetime
            The first moment: a time with its zone, or a duration before the last such as ``1h``.
        until : str or datetime, optional
            The last moment. Default: that of the workbench.
        service : Service, optional
            Service times of the members. Default: estimated from completions in the span.

        Raises
        ------
        InputError
            There is no such group, it had no state at the first moment, or the moments are not in
            order.
        """
        return gather_past(self, group, since, until, service)

    # ---- how it shows itself ---------------------------------------------------------------------

    def __dir__(self) -> list[str]:
        # Tab completes questions, not the tables behind them.
        return sorted({*vars(Workbench), *_BESIDE_QUESTIONS})

    def __repr__(self) -> str:
        when = "" if self.as_of is None else f", as of {_moment_text(self.as_of)}"
        chosen = f", groups {', '.join(sorted(self.choice.groups))}" if self.choice.groups else ""
        generation = self.choice.generation
        tried = "" if generation is None else f", records read as G{generation}"
        return f"<sharelag workbench: {self.describe()}{when}{chosen}{tried}, {self.engine} engine>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Show the input and its groups; a cluster that does not answer shows no stack trace.
        title = self.about or f"Share groups of {self.describe()}"
        try:
            groups = replace(self.lag(by="group"), title=title)
        except ShareLagError as error:
            return render.failure(self.describe(), str(error))
        return {"text/plain": groups.to_text(), "text/html": groups.to_html()}


def _moment_text(moment: Moment) -> str:
    if isinstance(moment, datetime):
        return iso(moment)
    return ",".join(f"{partition}:{offset}" for partition, offset in (moment or {}).items())
