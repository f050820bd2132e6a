"""`sharelag brokers`: who leads the partitions of a group, and who keeps their state."""

from __future__ import annotations

from typing import Any

import click

from sharelag.cli.once import Command
from sharelag.cli.options import (
    CHOICE,
    ENGINE,
    INPUT,
    OUTPUT,
    TIMEOUT,
    VERBOSE,
    choice_of,
    moment_of,
    source_of,
    with_options,
)
from sharelag.cli.order import Order, order_options
from sharelag.cli.output import groups_in, note, require_rows, start, summarise
from sharelag.cli.partial import note_partial, write_rows
from sharelag.cli.progress_bar import reading_bar
from sharelag.tables import views


@click.command(cls=Command)
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE, order_options("lag"))
def brokers(
    output: str, engine: str, sort: str | None, top: int | None, **options: Any
) -> int | None:
    """Show which broker leads each share partition, and which brokers keep its state and group.

    A share partition is led by the leader of its topic partition. Its state is kept by the leader
    of STATE-PARTITION of __share_group_state, its group by the leader of a partition of
    __consumer_offsets. CSV and JSON have the replicas in sync and the racks of replicas, too.
    """
    import pyarrow.compute as pc

    from sharelag.model import iso
    from sharelag.tables.lines import plain_rows
    from sharelag.workbench import engine as engines
    from sharelag.workbench import membership

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with (
        reading_bar(source) as read,
        engines.reading(read, start(engine, source), moment, choice, history=False) as begun,
    ):
        answer = engines.Answer.of(begun, begun.table("brokers"))
        # That of the lag, as everywhere; the column `as_of` says when the leaders were read.
        at = pc.max(begun.table("lag").column("as_of")).as_py()
    require_rows(choice, moment, groups_in(answer.table), source, answer.rejected)
    rows = Order(sort, top).of(plain_rows(answer.table), "lag" if output == "human" else None)
    write_rows(rows, output, views.BROKERS.columns, answer)
    note(membership.unknown_brokers(answer.table) + membership.leaderless(answer.table))
    summarise(answer, source, options["as_of"] or (at and iso(at)), "share partition")
    return note_partial(None, output, answer.lacks)
