"""What is not known of a table, and why, in the sentences that stand below it."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import listed
from sharelag.model.settings.queues import Queues
from sharelag.tables.reasons import NO_END_OFFSET_THEN, REASONS, UNKNOWN_TOPIC
from sharelag.tables.words import counted, decode_command


def of_rejected(rejected: int, generation: int | None = None) -> tuple[str, ...]:
    """Records that could not be decoded, as today's or as those of a generation."""
    shows = decode_command(generation)
    records = f"{counted(rejected, 'record')} that could not be decoded"
    return (f"{records}; {shows} shows {'it' if rejected == 1 else 'them'}",) if rejected else ()


def of_missing(places: int, stateless: int, elsewhere: str = "") -> tuple[str, ...]:
    """Say which records of the state topic are missing, as far as that is known.

    Parameters
    ----------
    places : int
        Places of the state topic where offsets are missing.
    stateless : int
        Share partitions without a state that their groups have initialized.
    elsewhere : str
        State partitions of which there is no record, in words.
    """
    said = []
    if places:
        said.append(
            f"what happened in {counted(places, 'place')} of the state topic, whose records are "
            "missing"
        )
    if stateless:
        said.append(
            f"the state of {counted(stateless, 'share partition')} that their groups have "
            "initialized: its records are missing"
        )
    if elsewhere:
        said.append(f"what is in {elsewhere}: give the records of all of them")
    return tuple(said)


def of_repeated(repeated: int) -> tuple[str, ...]:
    """Say how many records were there again and left out."""
    if not repeated:
        return ()
    repeat = "repeats" if repeated == 1 else "repeat"
    return (f"{counted(repeated, 'record')} {repeat} another one; each counts once",)


def of_lag(lag: pa.Table) -> tuple[str, ...]:
    """In how many rows the lag is not known, and why."""
    unknown = lag.filter(pc.is_null(lag.column("lag")))
    found = [
        reason
        for reason in pc.unique(unknown.column("lag_reason")).to_pylist()
        if reason in REASONS
    ]
    return of_rows(
        unknown.num_rows, len(lag), "the lag", (REASONS[reason] for reason in sorted(found))
    )


def of_hidden(lag: pa.Table) -> tuple[str, ...]:
    """How many topics a running cluster does not show.

    A broker answers for a topic that may not be described as for one that is not there.
    """
    nameless = lag.filter(pc.equal(lag.column("lag_reason"), UNKNOWN_TOPIC))
    count = len(pc.unique(nameless.column("topic_id")))
    if not count:
        return ()
    which = "1 topic is" if count == 1 else f"{count:,} topics are"
    shows = "sharelag doctor --rights shows what is granted"
    return (f"lag and ends where {which} hidden (DESCRIBE is missing) or deleted: {shows}",)


def of_column(table: pa.Table, name: str, what: str, why: Iterable[str] = ()) -> tuple[str, ...]:
    """In how many rows a column is null."""
    return of_rows(table.column(name).null_count, len(table), what, why)


def of_rows(count: int, of: int, what: str, why: Iterable[str] = ()) -> tuple[str, ...]:
    """``the lag in 2 of 14 share partitions (reasons)``; nothing where all is known."""
    reasons = "; ".join(why)
    where = f"{count:,} of {counted(of, 'share partition')}"
    return (f"{what} in {where}" + (f" ({reasons})" if reasons else ""),) if count else ()


def of_ends(timeline: pa.Table) -> tuple[str, ...]:
    """At how many moments of a timeline the end offset was not known."""
    lost = timeline.filter(pc.equal(timeline.column("lag_reason"), NO_END_OFFSET_THEN)).num_rows
    return (
        (f"the end offset, and with it the lag, in {lost:,} of {len(timeline):,} rows",)
        if lost
        else ()
    )


def of_settings(settings: pa.Table, groups: Iterable[str] = ()) -> tuple[str, ...]:
    """Where Kafka's defaults stand for what is not known of `sharelag.schemas.SETTINGS`.

    Of ``groups`` without any setting, those of a new group within its brokers' are shown.
    """
    if not settings.num_rows:
        return ("the settings (Kafka's defaults are assumed)",)
    unread = settings.column("value").null_count
    queues = Queues.of(settings).unknown()
    described = set(settings.column("entity").to_pylist())
    return (
        *(["some settings, which are not readable (Kafka's defaults are assumed)"] * bool(unread)),
        *(
            f"the settings of share group {group!r} (a new group has these)"
            for group in groups
            if group not in described
        ),
        *([f"whether dead-letter queues take letters: {listed(queues)}"] if queues else []),
    )
