"""Which offsets of which partitions a query of our Spark source reads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from sharelag.errors import ConfigError, DataLossError, TopicMissingError
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.spark.data_source_options import EARLIEST, LATEST, Positions, ReadOptions


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
        requested = [
            OffsetRange(topic, partition, first[partition], end[partition]) for partition in there
        ]
        ranges += [_in_log(options, one, there) for one in requested]
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
    found = {}
    for topic in topics:
        found[topic] = kafka.offset_ranges(config, topic, options.assigned.get(topic))
    return found


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
    return {
        p: {EARLIEST: there[p][0], LATEST: there[p][1]}.get(n, n)
        for p, n in positions[topic].items()
    }


def _in_log(
    options: ReadOptions, one: OffsetRange, there: Mapping[int, tuple[int, int]]
) -> OffsetRange:
    """Cut a range to the log, if data loss is allowed."""
    first, end = there[one.partition]
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
