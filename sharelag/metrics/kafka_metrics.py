"""The group coordinator's gauges, computed from its records, under Kafka's names.

Use them to compare a JMX dashboard with the records, and to parse MBean names in a dump.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.loads import exploded
from sharelag.schemas import Arrow

#: One gauge of ``kafka.server:type=group-coordinator-metrics``.
GAUGES = pa.schema(
    [("name", pa.string()), ("tags", pa.map_(pa.string(), pa.string())), ("value", pa.int64())]
)
#: Tags by KIP-932.
_STATES = ("Empty", "Stable")
_SHARE = {"protocol": "share"}
# Values with property separators are quoted (javax.management.ObjectName.quote).
_PROPERTY = re.compile(
    r'(?P<key>[^=,:"*?]+)=(?:"(?P<quoted>(?:\\.|[^"\\])*)"|(?P<plain>[^,="]*))(?:,|$)'
)


class MBean(NamedTuple):
    """The name of a metric in a JMX dump."""

    domain: str
    type: str
    name: str | None
    tags: Mapping[str, str]


def parse_mbean(text: str) -> MBean:
    """Parse an MBean name.

    Parameters
    ----------
    text : str
        ``kafka.server:type=group-coordinator-metrics,name=group-count,protocol=share``.

    Raises
    ------
    InputError
        When it is invalid, or has no type.
    """
    domain, colon, rest = text.partition(":")
    found, at = {}, 0
    while colon and (match := _PROPERTY.match(rest, at)):
        quoted = match["quoted"]
        found[match["key"]] = match["plain"] if quoted is None else _unquoted(quoted)
        at = match.end()
    if not domain or "type" not in found or at != len(rest):
        raise InputError(f"invalid MBean name {text!r}: give domain:type=...,name=...,tag=value")
    tags = {key: value for key, value in found.items() if key not in ("type", "name")}
    return MBean(domain, found["type"], found.get("name"), tags)


def group_gauges(groups: Arrow) -> pa.Table:
    """Return the gauges of share groups: their number, in all and by state, and partitions.

    Parameters
    ----------
    groups : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.GROUPS`.

    Returns
    -------
    pyarrow.Table
        `GAUGES`: ``group-count``, in all and for each ``state``, and ``num-partitions``, all with
        the tag ``protocol=share``.
    """
    schemas.require(groups, schemas.GROUPS, "groups")
    table = groups if isinstance(groups, pa.Table) else pa.Table.from_batches([groups])
    _, places, _ = exploded(table, "initialized_topics")
    rows = [("group-count", _SHARE, table.num_rows)]
    for state in _STATES:
        count = pc.sum(pc.equal(table.column("state"), state)).as_py() or 0
        rows.append(("group-count", _SHARE | {"state": state.lower()}, count))
    rows.append(("num-partitions", _SHARE, pc.count_distinct(places).as_py()))
    columns = zip(*((name, list(tags.items()), value) for name, tags, value in rows), strict=True)
    return pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, GAUGES, strict=True)], schema=GAUGES
    )


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)
