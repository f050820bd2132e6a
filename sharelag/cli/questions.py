"""Commands about lag and its causes, groups and members, states and records."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import Answered, ask, footer_lines, open_bench, print_answer
from sharelag.cli.options import (
    choice_of,
    command,
    flag,
    flags,
    given_options,
    in_order,
    moment_of,
    source_of,
    with_options,
)
from sharelag.cli.output import groups_in, note, plain, print_rows, require_rows, start, tell, write
from sharelag.errors import BrokerUnreachableError, NoLeaderError, TopicMissingError
from sharelag.tables import views
from sharelag.tables.level import has_colours
from sharelag.tables.words import client_words, pluralize, shell_word


@command(option.INPUT, option.CHOICE, option.REQUESTS, option.METRICS, option.ANSWER, option.OVER)
@option.duration(
    "--patience  How long something may last before it counts as stuck.  [default: the group's "
    "lock duration]",
    least=timedelta(),
)
def explain(output: str, patience: timedelta | None, **options: Any) -> int | None:
    """Show why each group lags: causes with their evidence, most severe first."""
    from sharelag.workbench.verdicts import summary_lines

    answered = ask("explain", options, patience=patience)
    if output == "human":
        write(summary_lines(answered.result.summaries))
        write(footer_lines(None, output, answered.result.lacks))
    else:
        answered.write(output, answered.result.table, {})
    return answered.note(output)


@command(option.INPUT, option.CHOICE, option.ANSWER, option.OVER)
@option.pick(
    "--by  Show only the spread over these; a broker's load is that of the partitions it leads.",
    among=["partition", "topic", "member", "broker"],
)
@option.duration("--every  Show the imbalance of lag at this interval.")
@with_options(option.order("gini"))
@option.switch("--verdict  Show where the lag of each group is concentrated, and idle members.")
def imbalance(
    output: str, by: str | None, every: timedelta | None, verdict: bool, **options: Any
) -> int | None:
    """Show how evenly lag, arrivals, work and partitions are spread.

    GINI and STD-DEV/MEAN are 0 for an even spread; MAX/MEAN and JAIN are 1.
    """
    if every is not None:
        if by in ("member", "broker"):
            raise click.UsageError(
                "--every works with --by partition or topic: past members and leaders are not "
                "recorded."
            )
        return print_answer("imbalance_trend", output, options, unit="row", every=every, by=by)
    if verdict:
        return print_answer("skew", output, options, unit="")
    return print_answer("imbalance", output, options, unit="", by=by)


@command(
    option.INPUT, option.CHOICE, option.METRICS, option.ANSWER, option.OVER, option.order("age_ms")
)
def progress(output: str, **options: Any) -> int | None:
    """Show the age of the lag, how fast it grows or drains, and its retention.

    AGE is the age of the oldest unfinished record; rates are records per second over the span, or
    since they last changed in it; DRAIN is the estimated time until the lag is gone, with its
    bounds; MARGIN is the time until unread records are deleted. Tables begin with the oldest lag.
    """
    return print_answer("progress", output, options, unit="")


@command(option.INPUT, option.CHOICE, option.ANSWER, option.OVER)
@option.path(
    "--ledger DIR  Delta table for forecasts and their outcomes, one per cluster; created if "
    "missing.",
    required=True,
)
@option.duration(
    "--horizon  How far ahead to forecast ages; a drain that takes longer is not forecast.",
    least=timedelta(seconds=1),
    default="5m",
)
def forecasts(output: str, ledger: Path, horizon: timedelta, **options: Any) -> int | None:
    """Forecast age and drain of the lag, and score the forecasts that are due.

    FROM to TO should contain 80 % of outcomes; both are `-` until enough similar forecasts have
    been scored, and where such intervals were further off than lag / rate. How often they came true
    is printed beside the table. Run it at regular intervals: each run scores what has come due
    since.
    """
    return print_answer(
        "forecasts", output, options, unit="forecast", ledger=str(ledger), horizon=horizon
    )


@command(option.INPUT, option.CHOICE, option.ANSWER)
@option.text(
    "--described FILE  Output of `kafka-share-groups.sh --describe --offsets` to compare with; - "
    "is stdin.",
    type=click.File("rb"),
)
@option.switch("--true  Read the whole backlog and count the records that exist.")
def reconcile(output: str, described: Any, true: bool, **options: Any) -> int | None:
    """Compare the lag computed in several ways, and explain the differences.

    NAIVE is end - start, EFFECTIVE counts unfinished offsets of the state batches, TRUE counts
    records that exist and are not aborted.
    """
    from sharelag.inputs.texts import text_of

    text = text_of(described.read(), "replace", name=described.name) if described else None
    return print_answer("reconcile", output, options, described=text, true=true)


@command(option.INPUT, option.ANSWER)
@option.switch("--findings only_findings  Show only the problems, as a table.")
@option.switch(
    "--snapshots of_each  Show the last snapshot of each share partition instead, and the updates "
    "since."
)
def health(output: str, only_findings: bool, of_each: bool, **options: Any) -> int | None:
    """Show the health of the state topic: records, bytes, pruning, misplaced records."""
    if only_findings and of_each:
        raise click.UsageError("--findings and --snapshots are two tables: choose one.")
    if of_each:
        return print_answer("snapshots", output, options)
    unit = "finding" if only_findings else "state partition"
    return print_answer("health", output, options, unit=unit, findings=only_findings)


_KEYS = ("group_id", "topic_id", "partition")


@command(option.INPUT, option.CHOICE, option.REQUESTS, option.METRICS, option.ANSWER)
@option.pick(
    "--by  A row for each share partition, or sums by group or topic.",
    among=["partition", "group", "topic"],
    default="partition",
)
@option.switch("--brief  Show only Kafka's columns.")
@with_options(option.order("lag"))
@option.duration(
    "--watch  Refresh at this interval and show the change; Ctrl-C stops it.",
    least=timedelta(milliseconds=100),
)
def lag(output: str, by: str, brief: bool, watch: timedelta | None, **options: Any) -> int | None:
    """Show the lag of share partitions, and its terms.

    LAG is Kafka's: end offset - start offset - delivery complete count, `-` where Kafka does not
    know it. UNREAD offsets are beyond the window, AVAILABLE ones wait for another delivery, UNKNOWN
    ones are acquired or have no persisted state, COMPLETE ones are finished but not yet passed by
    the start offset. Tables begin with the largest lag, and come with the sum.
    """
    from sharelag.inputs import KafkaInput

    if brief and by != "partition":
        raise click.UsageError("--brief needs --by partition.")
    for name in ("requests", "broker_metrics"):
        if options[name] and (brief or by != "partition" or watch):
            raise click.UsageError(
                f"{flag(name)} needs --by partition, without --brief and --watch."
            )
    arguments: dict[str, Any] = {"by": None if by == "partition" else by, "brief": brief}
    if watch is None:
        return _lag(output, options, arguments)[1]
    if options["as_of"] or not isinstance(source_of(options), KafkaInput):
        raise click.UsageError(
            "--watch needs a running cluster (--bootstrap-server) and no --as-of."
        )
    before: Mapping[Any, int | None] | None = None
    while True:
        try:
            before, _ = _lag(output, options, arguments, before or {})
        except (NoLeaderError, BrokerUnreachableError, TopicMissingError) as error:
            if before is None and not isinstance(error, NoLeaderError):
                raise  # an address that never answered may be wrong
            tell(str(error))
        time.sleep(watch.total_seconds())


def _lag(
    output: str,
    options: dict[str, Any],
    arguments: dict[str, Any],
    before: Mapping[Any, int | None] | None = None,
) -> tuple[dict[Any, int | None], int | None]:
    """Print the lag, with its change since ``before``; return it by row, and the exit code."""
    from sharelag.tables.declared import heading_of

    answered = ask("lag", options, **arguments)
    rows, columns = plain(answered.result.table), dict(answered.result.columns)
    # Requested after the lag, the id of the cluster reveals that another has the address now.
    cluster = None if before is None else answered.source.cluster_id
    if before and all(was[0] != cluster for was in before):
        tell(f"the {answered.source.describe()} is another one now: changes begin anew")
    places = [(cluster, *(row.get(name) for name in _KEYS)) for row in rows]
    now = {at: row["lag"] for at, row in zip(places, rows, strict=True)}
    if before is not None:
        for place, row in zip(places, rows, strict=True):
            was = before.get(place)
            row["change"] = None if None in (was, row["lag"]) else row["lag"] - was
        columns[heading_of("change")] = "change"
        if output == "human" and sys.stdout.isatty():
            click.clear()
    rows = in_order(rows, options, "lag" if output == "human" else None)
    answered.write(output, rows, columns)
    return now, answered.note(output, arguments["by"] or "share partition")


_PRINTED = option.text(
    "--kafka-output FILE  Output of kafka-share-groups.sh --list or --describe (--state, "
    "--members, --offsets), or of kafka-groups.sh --list, instead of an input; - is stdin.",
    type=click.File("rb"),
)
#: Options that cannot be combined with --kafka-output.
_INPUT_OPTIONS = (
    *("bootstrap_server", "command_config", "command_property", "capture", "raw", "segments"),
    *("generation", "topic", "as_of", "engine", "timeout"),
)


@command(option.INPUT, _PRINTED, option.CHOICE, option.ANSWER)
@option.repeat(
    "--state states STATE  Limit to groups in this state: Empty, Stable or Dead; repeatable, or "
    "comma-separated."
)
@with_options(option.order("lag"))
def groups(output: str, states: tuple[str, ...], kafka_output: Any, **options: Any) -> int | None:
    """Show the groups: type, state, epochs, members, topics and lag.

    STATE is Stable with members and Empty without. Dead groups were deleted, but the state topic
    still has their state.
    """
    import pyarrow.compute as pc

    from sharelag.model import parse_states
    from sharelag.tables import gaps
    from sharelag.workbench.questions.balance import in_states

    parse_states(states)  # before anything is read

    if kafka_output is not None:
        every = _read_printed(kafka_output, options)
        found = in_states(every.groups, states)
        rows = in_order(plain(found), options, "lag" if output == "human" else None)
        print_rows(rows, output, views.GROUP_STATES.columns)
        count, known = pluralize(found.num_rows, "group"), pc.sum(found.column("members")).as_py()
        is_whole = not found.column("members").null_count
        members = f", {pluralize(known or 0, 'member')}" if is_whole else ""
        _note_printed(f"{count}{members}", every.others)
        note(gaps.of_members(found))
        return None
    with _or_kafkas_command(options, "--state"):
        return print_answer("group_states", output, options, unit="group", states=states)


@command(option.INPUT, _PRINTED, option.CHOICE, option.ANSWER)
def members(output: str, kafka_output: Any, **options: Any) -> int | None:
    """Show the members of each group: client, host, rack, epoch, and assigned partitions."""
    from sharelag.tables import gaps

    if kafka_output is not None:
        of_groups, found, others = _read_printed(kafka_output, options)
        print_rows(found, output, views.MEMBERS.without("rack_id").columns)
        members = pluralize(found.num_rows, "member")
        _note_printed(f"{members} of {pluralize(of_groups.num_rows, 'group')}", others)
        note(gaps.of_members(of_groups, found))
        return None
    with _or_kafkas_command(options, "--members"):
        return print_answer("members", output, options, unit="member")


def _read_printed(file: Any, options: dict[str, Any]) -> Any:
    """Parse the output of Kafka's command for the chosen groups."""
    from sharelag.errors import InputError, unknown_group
    from sharelag.inputs.kafka.described import of_groups, parse_groups
    from sharelag.inputs.texts import text_of

    if ignored := given_options(_INPUT_OPTIONS):
        raise click.UsageError(f"--kafka-output ignores {flags(ignored)}: remove one of them.")
    every = parse_groups(text_of(file.read(), "replace", name=file.name))
    chosen = choice_of(options).groups
    there = groups_in(every.groups)
    if missing := sorted(chosen - there):
        raise InputError(unknown_group(missing[0], there, "in what Kafka's command printed"))
    return of_groups(every, chosen)


def _note_printed(counts: str, others: Sequence[str]) -> None:
    tell(f"{counts}, as Kafka's command printed them")
    if others:
        words = f"{pluralize(len(others), 'line')} that the command does not print"
        tell(f"{words}, such as {others[0][:80]!r}")


@contextmanager
def _or_kafkas_command(options: dict[str, Any], what: str) -> Iterator[None]:
    """Name Kafka's command that may answer if a topic may not be read."""
    from sharelag.errors import AuthorizationError

    try:
        yield
    except AuthorizationError as error:
        words = client_words(options["bootstrap_server"], options["command_config"])
        raise AuthorizationError(
            f"{error}. Describing groups takes fewer rights; --kafka-output reads what this "
            f"prints: kafka-share-groups.sh {' '.join(map(shell_word, words))} --describe "
            f"--all-groups {what} --verbose"
        ) from error


@command(option.INPUT, option.CHOICE, option.ANSWER, option.order("lag"))
def brokers(output: str, **options: Any) -> int | None:
    """Show which broker leads each share partition, and which brokers keep its state and group.

    A share partition is led by the leader of its topic partition. Its state is kept by the leader
    of STATE-PARTITION of __share_group_state, its group by the leader of a partition of
    __consumer_offsets. CSV and JSON also have the in-sync replicas and the racks of the replicas.
    """
    return print_answer("brokers", output, options)


@command(option.INPUT, option.REQUESTS, option.CHOICE, option.ANSWER)
@option.text("--since WHEN  Show what changed since a time, or within a span such as 2h.")
@option.switch(
    "--picture  Draw each window: offsets, states and delivery counts, with long runs folded."
)
def windows(output: str, since: str | None, picture: bool, **options: Any) -> int | None:
    """Show the state of each share partition: epochs, offsets, state batches.

    With -o json, yaml and csv the fields of a window have Kafka's values, in which -1 means
    unknown, as does 0 for a timestamp.
    """
    from sharelag.workbench.show import window_rows

    if picture and (since is not None or output != "human"):
        raise click.UsageError("--picture shows one moment as text: remove --since and -o.")
    if since is not None:
        if options["requests"]:
            raise click.UsageError("--requests shows who holds what at one moment: remove --since.")
        return print_answer("diff", output, options, before=since)
    answered = ask("windows", options, held=picture)
    rows = window_rows(answered.result.table)
    if picture:
        from sharelag.workbench.show import pictures

        write(pictures(rows, _paint if sys.stdout.isatty() else None))
        write(footer_lines(answered.source, output, answered.result.lacks))
    else:
        answered.write(output, rows, answered.result.columns)
    return answered.note(output, "share partition")


def _paint(text: str, colour: str) -> str:
    return click.style(text, fg=colour) if has_colours() else text


@command(option.INPUT, option.CHOICE, option.OUTPUT, option.TIMEOUT, option.VERBOSE)
@option.pick(
    "--records  Records of __share_group_state, of share groups in __consumer_offsets, or both.",
    among=["state", "group", "all"],
    default="all",
)
def decode(output: str, records: str, **options: Any) -> None:
    """Print the records as JSON, as Kafka's own formatters do.

    A record that cannot be decoded is printed as a reject. Records name topics by their ids, so
    --topic takes ids here. It applies to state records only, as do offsets in --as-of.
    """
    from sharelag.engine.local import decode_topic
    from sharelag.tables.lines import lines
    from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
    from sharelag.wire.generations import group_types
    from sharelag.workbench.show import decode_rows, decode_texts, draft_types, older_generations

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    start("local", source)
    topics = {"state": [STATE_TOPIC], "group": [GROUP_TOPIC]}
    skipped, older = 0, Counter[str]()
    types: list[Any] = []

    def batches() -> Iterator[Any]:
        nonlocal skipped
        for topic in topics.get(records, [STATE_TOPIC, GROUP_TOPIC]):
            see = (lambda one: types.append(group_types(one))) if topic == GROUP_TOPIC else None
            for batch in decode_topic(source, topic, moment, choice, see):
                skipped += batch.skipped
                older.update(older_generations(batch.records))
                yield batch

    if output in ("human", "json"):
        write((text for batch in batches() for text in decode_texts(batch)), "json")
    else:
        rows = (row for batch in batches() for row in decode_rows(batch, output == "csv"))
        write(lines(rows, output), output)
    tell(f"skipped {pluralize(skipped, 'record')} of other kinds")
    for name, count in sorted(older.items()):
        tell(f"{pluralize(count, 'record')} in an older format, {name}")
    tell(*draft_types(types, choice.groups))


#: Maximum number of lines for people if records come from Spark.
_MOST_LINES = 20_000


@command(option.INPUT, option.CHOICE, option.ANSWER)
@option.text("--since WHEN  Start at this time, or this long before the end (2h).")
@option.switch(
    "--events  Show resets, new leaders, archived records and members instead of every record."
)
@option.duration("--every  Show the lag at this interval instead of every record.")
def history(
    output: str, since: str | None, events: bool, every: timedelta | None, **options: Any
) -> int | None:
    """Show how each share partition changed, record by record or at intervals.

    FINISHED, RELEASED and ARCHIVED count offsets that a record changed, `-` where that is unknown
    because earlier records may be missing. PARTIAL marks states without a complete snapshot.
    """
    if events:
        return print_answer("events", output, options, unit="event", since=since, every=every)
    if every is not None:
        return print_answer(
            "timeline", output, options, unit="row", since=since, every=every, whole=True
        )
    if output == "human":
        return print_answer("history", output, options, unit="record", since=since)
    return _print_all(output, since, options)


def _print_all(output: str, since: str | None, options: dict[str, Any]) -> int | None:
    """Print all rows in chunks: there may be millions."""
    from sharelag.tables.lines import each_row
    from sharelag.workbench.questions.timeline import begin_of

    source = source_of(options)
    with open_bench(source, options) as bench:
        read = bench.reading
        begin, base = begin_of(since, read.now), bench.base(read, past=True)
        groups = groups_in(read.ever)
        require_rows(bench.choice, bench.as_of or begin, groups, source, base.rejected)
        answered = Answered(base, source, groups, bench.choice, options["as_of"])
        rows = (row for table in read.history_tables(begin) for row in each_row(table))
        answered.write(output, rows, None)
        return answered.note(output)
