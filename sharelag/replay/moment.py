"""Select records: those of some groups, up to a time or to offsets of the state topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from numbers import Integral
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.schemas import Arrow

#: Where Kafka's timestamps start.
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 1, 1, tzinfo=UTC)

#: A time, or state partition -> offset of the last record to include. None: all records.
Moment = datetime | Mapping[int, int] | None
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Choice:
    """The selected share partitions (empty: all), and the generation of their records."""

    groups: frozenset[str] = frozenset()
    #: A topic without partitions stands for all of them.
    topics: dict[str, frozenset[int]] = field(default_factory=dict)
    #: State records are decoded in this generation of the format first; None: by each record.
    generation: int | None = None

    def of(self, table: Arrow, names: str = "topic") -> Arrow:
        """Return the rows of the selected topics; a topic without a known name is its id."""
        if not self.topics:
            return table
        columns = (table.column(name).to_pylist() for name in (names, "topic_id", "partition"))
        chosen = [
            self.has(name or topic_id, partition)
            for name, topic_id, partition in zip(*columns, strict=True)
        ]
        return table.filter(pa.array(chosen, pa.bool_()))

    def has(self, topic: str, partition: int) -> bool:
        """Return whether a partition of a topic is selected."""
        partitions = self.topics.get(topic)
        return not self.topics or (
            partitions is not None and (not partitions or partition in partitions)
        )

    def lacking(self, table: Arrow) -> list[str]:
        """Return the selected topics, and partitions of them, that have no row in a table."""
        names, ids, numbers = (
            table.column(name).to_pylist() for name in ("topic", "topic_id", "partition")
        )
        topics = [name or topic_id for name, topic_id in zip(names, ids, strict=True)]
        there = {*topics, *(f"{topic}:{n}" for topic, n in zip(topics, numbers, strict=True))}
        chosen = {
            name: [f"{name}:{n}" for n in sorted(some)] if some and name in there else [name]
            for name, some in self.topics.items()
        }
        return [one for some in chosen.values() for one in some if one not in there]

    def topic_names(self) -> list[str]:
        """Return the selected topics as they are written: ``orders``, or ``orders:0,2``."""
        return [
            f"{topic}:{','.join(map(str, sorted(some)))}" if some else topic
            for topic, some in sorted(self.topics.items())
        ]

    def without_topics(self) -> Choice:
        """Return the choice without topics, whose names may not be known yet."""
        return replace(self, topics={})

    def everything(self) -> Choice:
        """Return the choice of all groups and topics."""
        return Choice(generation=self.generation)


def parse_topics(texts: Iterable[str]) -> dict[str, frozenset[int]]:
    """Parse topics as Kafka's commands take them: ``orders``, or ``orders:0,2``."""
    topics: dict[str, frozenset[int]] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        if not name or (colon and not re.fullmatch(r"\d+(,\d+)*", numbers)):
            raise InputError(f"{text!r} is not a topic: give TOPIC or TOPIC:0,1,2")
        topics[name] = topics.get(name, frozenset()) | {int(n) for n in numbers.split(",") if n}
    return topics


def parse_moment(text: str, alternative: str = "") -> Moment:
    """Parse a moment from a command line or a parameter cell; any other text is an InputError.

    It is a time such as ``2026-11-21T03:10:00Z`` (ISO 8601 with its offset from UTC), or
    ``partition:offset[,...]`` of the state topic, with the offset of the last record to include.
    ``alternative`` names other accepted forms, for the message.
    """
    if re.fullmatch(r"0\d:[0-5]\d", text):
        raise InputError(
            f"{text!r} is a time without a date: give one such as 2026-11-21T{text}:00Z"
        )
    pairs = [part.split(":") for part in text.split(",")]
    if all(len(pair) == 2 and all(p.strip().isdecimal() for p in pair) for pair in pairs):
        return _offsets(text, [(int(partition), int(offset)) for partition, offset in pairs])
    return parse_time(text, f", or offsets of state partitions such as 0:1200,3:88{alternative}")


def parse_time(text: str, alternative: str = "") -> datetime:
    """Parse a time with its time zone; any other text is an InputError."""
    try:
        moment = datetime.fromisoformat(re.sub(" UTC$", "Z", text))  # as answers say it
    except ValueError:
        raise InputError(
            f"invalid time {text!r}: give one such as 2026-11-21T03:10:00Z{alternative}"
        ) from None
    if moment.tzinfo is None:
        raise InputError(f"{text!r} has no time zone: add Z for UTC, or an offset such as +01:00")
    return _in_utc(moment, repr(text))


def _in_utc(moment: datetime, text: str) -> datetime:
    """Return a time as a plain datetime in UTC, which Arrow can compare."""
    if not FIRST <= moment <= _LAST:
        raise InputError(f"{text} is out of range: Kafka's timestamps start in 1970")
    return datetime(*moment.utctimetuple()[:6], moment.microsecond, UTC)


def parse_since(
    text: str, end: Callable[[], datetime], parse: Callable[[str, str], M]
) -> datetime | M:
    """Parse the start of a span: a duration before its end, such as ``2h``, or else a moment."""
    try:
        span = parse_duration(text)
    except InputError:
        return parse(text, ", or a duration such as 30s, 5m or 2h")
    last = end()
    return last - min(span, last - FIRST)


def as_moment(moment: str | Moment) -> Moment:
    """Return a moment in UTC; a time without a zone, and anything else, is an InputError."""
    if isinstance(moment, str):
        return parse_moment(moment)
    if isinstance(moment, Mapping) and all(
        isinstance(number, Integral) for pair in moment.items() for number in pair
    ):
        return _offsets(str(moment), [(int(at), int(last)) for at, last in moment.items()])
    if not isinstance(moment, datetime | None):
        raise InputError(
            f"{moment!r} is neither a time nor offsets: give a datetime with its time zone, a text "
            "such as '2026-11-21T03:10:00Z', or offsets of state partitions such as {0: 1200}"
        )
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise InputError(f"{moment} has no time zone: add tzinfo=UTC")
    return _in_utc(moment, str(moment))


def as_time(moment: str | datetime | None) -> datetime | None:
    """Return a moment that is a time; offsets and what `as_moment` refuses are an InputError."""
    found = parse_time(moment) if isinstance(moment, str) else as_moment(moment)
    if isinstance(found, Mapping):
        raise InputError(
            f"{moment!r} are offsets of state partitions, which have no end offsets to go with: "
            "give a datetime with its time zone, or a text such as '2026-11-21T03:10:00Z'"
        )
    return found


def _offsets(text: str, pairs: list[tuple[int, int]]) -> dict[int, int]:
    offsets = dict(pairs)
    if len(offsets) < len(pairs):
        raise InputError(f"{text!r} names a state partition twice: give one offset per partition")
    if max(offsets, default=0) >= 2**31 or max(offsets.values(), default=0) >= 2**63:
        raise InputError(f"{text!r} has a partition or an offset that is out of range")
    return offsets


def up_to(records: Arrow, moment: Moment) -> Arrow:
    """Return the records written up to a moment; with offsets, only those state partitions."""
    if moment is None:
        return records
    if isinstance(moment, datetime):
        return records.filter(
            pc.less_equal(records.column("timestamp"), pa.scalar(moment, schemas.TIMESTAMP))
        )
    partitions = pa.array(list(moment), pa.int32())
    limits = pa.array(list(moment.values()), pa.int64())
    limit = limits.take(pc.index_in(records.column("record_partition"), partitions))
    return records.filter(pc.less_equal(records.column("offset"), limit))


def filter_groups(records: Arrow, groups: frozenset[str]) -> Arrow:
    """Return the records of some groups, or of all if none is named."""
    return (
        records.filter(pc.is_in(records.column("group_id"), pa.array(sorted(groups))))
        if groups
        else records
    )
