"""Options of our Spark source, named as Spark's own Kafka source names them, and its ranges."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from sharelag.errors import ConfigError, DataLossError, TopicMissingError
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig, from_spark_options

FORMAT = "sharelag_kafka"
EARLIEST, LATEST = -2, -1

#: One of these names the topics.
_TOPICS = ("subscribe", "subscribePattern", "assign")
_OPTIONS = {
    name.lower(): name
    for name in (
        *(*_TOPICS, "startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"),
        *("endingOffsetsByTimestamp", "minPartitions", "failOnDataLoss"),
        *("maxOffsetsPerTrigger", "includeGaps"),
    )
}
#: Options that only one kind of query has.
_STREAMS_ONLY = ("maxOffsetsPerTrigger", "includeGaps")
_BATCHES_ONLY = ("endingOffsets", "endingOffsetsByTimestamp")

#: Topic -> partition -> an offset, `EARLIEST` or `LATEST`.
Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class ReadOptions:
    """A query's options, checked."""

    config: ClientConfig
    topics: Sequence[str]
    pattern: str | None
    assigned: Mapping[str, Sequence[int]]
    starting: str | Positions
    ending: str | Positions
    starting_at: Positions | None  # milliseconds instead of offsets
    ending_at: Positions | None
    min_partitions: int
    fail_on_data_loss: bool
    max_offsets: int | None = None  # per micro-batch
    include_gaps: bool = False  # whether pruned ranges are returned as rows


def read_options(options: Mapping[str, str], stream: bool = False) -> ReadOptions:
    """Check a query's options; Spark passes their names in lower case.

    A stream starts at the latest offset by default and has no end. An option that is unknown,
    malformed, or contradicts another is a ConfigError.
    """
    given = {_OPTIONS.get(name.lower(), name.lower()): value for name, value in options.items()}
    clients = {name: value for name, value in given.items() if name.startswith("kafka.")}
    if given.get("includeheaders", "false").lower() != "false":
        raise ConfigError(
            "includeHeaders is not supported: the share group state has no headers, remove it"
        )
    for name in given.keys() - clients.keys() - {*_OPTIONS.values(), "includeheaders"}:
        raise ConfigError(
            f"unknown option {name!r} of {FORMAT}: it has {', '.join(_OPTIONS.values())}, kafka.*"
        )
    which = [name for name in _TOPICS if name in given]
    if len(which) != 1:
        got = " and ".join(which) or "none"
        raise ConfigError(f"give one of subscribe, subscribePattern and assign, not {got}")
    if not given[which[0]].strip(" ,"):
        raise ConfigError(f"{which[0]} is empty: give at least one topic")
    pattern = given.get("subscribePattern")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ConfigError(f"invalid subscribePattern {pattern!r}: {error}") from error
    kind, other = ("stream", "batch query") if stream else ("batch query", "stream")
    for name in _BATCHES_ONLY if stream else _STREAMS_ONLY:
        if name in given:
            raise ConfigError(f"{name} is for a {other}, and this is a {kind}: remove it")
    names = (name.strip() for name in given.get("subscribe", "").split(","))
    return ReadOptions(
        config=from_spark_options(clients),
        topics=list(dict.fromkeys(filter(None, names))),
        pattern=pattern,
        assigned=_assigned(given),
        starting=_positions(given, "startingOffsets", "latest" if stream else "earliest", stream),
        ending=_positions(given, "endingOffsets", "latest"),
        starting_at=_by_partition(given, "startingOffsetsByTimestamp"),
        ending_at=_by_partition(given, "endingOffsetsByTimestamp"),
        min_partitions=_count(given, "minPartitions") or 1,
        fail_on_data_loss=_flag(given, "failOnDataLoss", "true"),
        max_offsets=_count(given, "maxOffsetsPerTrigger"),
        include_gaps=_flag(given, "includeGaps", "false"),
    )


# ---- the text of each
def _positions(
    given: Mapping[str, str], name: str, default: str, stream: bool = False
) -> str | Positions:
    text = given.get(name, default).strip()
    is_first = name == "startingOffsets"
    word, useless = ("latest", LATEST) if is_first else ("earliest", EARLIEST)
    found: str | Positions = text.lower()
    if found not in ("earliest", "latest"):
        found = _by_partition(given, name) or {}
        is_useless = any(useless in each.values() for each in found.values())
        text = f"{useless} ({word})"
    else:
        is_useless = found == word
    if is_useless and not stream:
        raise ConfigError(f"{name} cannot be {text} in a batch query: nothing would be read")
    return found


def _by_partition(given: Mapping[str, str], name: str) -> Positions | None:
    if name not in given:
        return None
    try:
        found = {
            t: {int(p): _whole(n) for p, n in each.items()}
            for t, each in json.loads(given[name]).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f'{name} is invalid: give JSON such as {{"topic": {{"0": 23, "1": -2}}}}'
        ) from error
    least = 0 if name.endswith("ByTimestamp") else EARLIEST
    if any(n < least for each in found.values() for n in each.values()):
        raise ConfigError(
            f"{name} has a number below {least}: give offsets of at least 0, -2 for earliest or "
            "-1 for latest"
        )
    return found


def _assigned(given: Mapping[str, str]) -> dict[str, list[int]]:
    if "assign" not in given:
        return {}
    try:
        found = {
            t: sorted({_whole(p) for p in each}) for t, each in json.loads(given["assign"]).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError('assign is invalid: give JSON such as {"topic": [0, 1]}') from error
    if not found or not all(found.values()):
        raise ConfigError("assign is empty: give at least one partition of each topic")
    return found


def _whole(number: object) -> int:
    """Return a JSON integer; ``int`` alone would also accept 1.5, "1" and true."""
    if type(number) is not int:
        raise TypeError(f"{number!r} is not an integer")
    return number


def _count(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{name} is {text!r}: give an integer of at least 1")
    return int(text)


def _flag(given: Mapping[str, str], name: str, default: str) -> bool:
    text = given.get(name, default).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is {text!r}: give true or false")
    return text == "true"


# ---- ranges of offsets --------------------------------------------------------------------------


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The offsets that one Spark task reads."""

    topic: str
    partition: int
    first: int
    end: int


def plan(options: ReadOptions) -> list[OffsetRange]:
    """Return the ranges to read, from one request to the cluster in the driver."""
    ranges = []
    for topic, there in logs(options).items():
        first = resolve(options, topic, there, options.starting, options.starting_at)
        end = resolve(options, topic, there, options.ending, options.ending_at)
        requested = [OffsetRange(topic, p, first[p], end[p]) for p in there]
        ranges += [_in_log(options, one, there[one.partition]) for one in requested]
    return [one for one in ranges if one.end > one.first]


def logs(options: ReadOptions) -> dict[str, dict[int, tuple[int, int]]]:
    """Return current first and end offsets of every selected partition, by topic."""
    config = options.config.renewed()  # a stream asks again and again
    topics = list(options.topics) or list(options.assigned)
    if options.pattern is not None:
        topics = [name for name in kafka.topic_names(config) if re.fullmatch(options.pattern, name)]
        if not topics:
            raise TopicMissingError(
                f"no topic matches subscribePattern {options.pattern!r}: check pattern and cluster"
            )
    _require_read(options, topics)
    return {
        topic: kafka.offset_ranges(config, topic, options.assigned.get(topic)) for topic in topics
    }


def split(ranges: Sequence[OffsetRange], at_least: int) -> list[OffsetRange]:
    """Split long ranges into about ``at_least`` ranges of about equal size."""
    total = sum(one.end - one.first for one in ranges)
    pieces = []
    for one in ranges:
        size = one.end - one.first
        count = min(size, max(1, math.ceil(at_least * size / total)))
        cuts = [one.first + size * n // count for n in range(count + 1)]
        pieces += [OffsetRange(one.topic, one.partition, a, b) for a, b in pairwise(cuts)]
    return pieces


def resolve(
    options: ReadOptions,
    topic: str,
    there: Mapping[int, tuple[int, int]],
    positions: str | Positions,
    times: Positions | None,
) -> dict[int, int]:
    """Return the offset of every partition; a time overrides a position, as in Spark's source."""
    if times is not None:
        _require_exactly(topic, there, times)
        found = kafka.offsets_for_times(options.config, topic, times[topic])
        # Records written after the ends were fetched are not part of this query.
        return {p: min(offset, there[p][1]) for p, offset in found.items()}
    if isinstance(positions, str):
        return {partition: span[positions == "latest"] for partition, span in there.items()}
    _require_exactly(topic, there, positions)
    ends = {EARLIEST: 0, LATEST: 1}
    return {p: there[p][ends[n]] if n in ends else n for p, n in positions[topic].items()}


def _in_log(options: ReadOptions, one: OffsetRange, there: tuple[int, int]) -> OffsetRange:
    first, end = there
    if options.fail_on_data_loss and not (first <= one.first <= end and first <= one.end <= end):
        raise DataLossError(
            f"{one.topic} partition {one.partition} has offsets {first} to {end} (exclusive), not "
            f"all of {one.first} to {one.end}: start from earliest and end at latest, or set "
            "failOnDataLoss to false to read what is there"
        )
    return OffsetRange(one.topic, one.partition, max(one.first, first), min(one.end, end))


def _require_read(options: ReadOptions, topics: Sequence[str]) -> None:
    """Reject offsets of topics that are not read: they are probably misspelled."""
    given = (options.starting, options.ending, options.starting_at, options.ending_at)
    named = {topic for positions in given if isinstance(positions, Mapping) for topic in positions}
    if stray := named - set(topics):
        raise ConfigError(
            f"offsets are given for topic {min(stray)!r}, which is not read: check its spelling"
        )


def _require_exactly(topic: str, there: Mapping[int, object], positions: Positions) -> None:
    named = positions.get(topic, {})
    if missing := there.keys() - named.keys():
        raise ConfigError(
            f"the offsets for {topic} lack partition {min(missing)}: give all partitions to read"
        )
    if stray := named.keys() - there.keys():
        raise ConfigError(
            f"the offsets for {topic} include partition {min(stray)}, which is not read: remove it"
        )
