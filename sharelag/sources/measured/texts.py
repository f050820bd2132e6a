"""Text with metrics: Prometheus exposition, and the four formats of Kafka's JmxTool."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.schemas import BROKER_METRICS
from sharelag.sources.measured.names import Name, of_mbean, of_prometheus, row_of

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|NaN|Infinity)"
#: One figure a line, by what separates the name from the number.
_LINES = {
    "time=": re.compile(rf"(.+)=({_NUMBER})"),
    "time\t": re.compile(rf"(.+)\t({_NUMBER})"),
    'time,"': re.compile(rf'(.+),"({_NUMBER})"'),
}
_HEADER = '"time",'
_LAST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()

_Sample = tuple[datetime, Name, float]


def metrics_of(text: str, source: str, at: datetime, broker: str | None = None) -> pa.Table:
    """Read metrics from text.

    Parameters
    ----------
    text : str
        Prometheus text exposition, or what ``kafka-run-class.sh org.apache.kafka.tools.JmxTool``
        printed in any ``--report-format``, also many times (``--reporting-interval``).
    source : str
        Where it is from, for the column and for messages.
    at : datetime
        When it was read; JmxTool and samples with a timestamp say it themselves.
    broker : str, optional
        Whose it is; else what labels say.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.BROKER_METRICS`. Numbers alone: attributes of JMX that are texts are left
        out, and NaN is null.

    Raises
    ------
    InputError
        It is neither, or has no metrics.
    """
    start = next((mark for mark in (_HEADER, *_LINES) if text.startswith(mark)), None)
    try:
        if start is None:
            found = _prometheus(text, at)
        else:
            found = _wide(text) if start == _HEADER else _by_line(text, _LINES[start])
        rows = [_row(sample, source, broker) for sample in found]
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        why = repr(str(error)[:200])
        raise InputError(
            f"{source} has no metrics that can be read ({why}): give what JmxTool printed, or "
            "Prometheus text"
        ) from error
    if not rows:
        raise InputError(f"{source} has no metrics: give what JmxTool printed, or Prometheus text")
    return pa.Table.from_pylist(rows, schema=BROKER_METRICS)


def _row(sample: _Sample, source: str, broker: str | None) -> dict[str, Any]:
    at, name, value = sample
    row = row_of(name)
    row["broker"] = broker or row.get("broker")
    known = None if math.isnan(value) else value
    return row | {"as_of": at, "read_from": source, "figure": known}


def _prometheus(text: str, at: datetime) -> Iterator[_Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            when = at if sample.timestamp is None else _time(float(sample.timestamp))
            yield when, of_prometheus(sample.name, sample.labels), float(sample.value)


def _wide(text: str) -> Iterator[_Sample]:
    """A line of names and a line of numbers a reading, as JmxTool writes without a format."""
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith(_HEADER):
            names = line[1:-1].split('","')
            continue
        values = line.split(",")
        if len(values) != len(names):
            raise ValueError(
                f"{len(values)} values for {len(names)} names: a value has a comma, print "
                "--report-format properties"
            )
        when = _time(int(values[0]) / 1000)
        for name, value in zip(names[1:], values[1:], strict=True):
            known = of_mbean(name)
            if known is not None and re.fullmatch(_NUMBER, value):
                yield when, known, _number(value)


def _by_line(text: str, pattern: re.Pattern[str]) -> Iterator[_Sample]:
    when: datetime | None = None
    for line in text.splitlines():
        found = pattern.fullmatch(line)
        if found is None:
            continue  # a text, of one line or of several
        if found[1] == "time":
            when = _time(int(found[2]) / 1000)
        elif when is not None and (name := of_mbean(found[1])) is not None:
            yield when, name, _number(found[2])


def _number(text: str) -> float:
    return float(text.replace("Infinity", "inf"))


def _time(seconds: float) -> datetime:
    if not 0 <= seconds < _LAST:
        raise ValueError(f"{seconds} is not a time in seconds since 1970")
    return datetime.fromtimestamp(seconds, UTC)
