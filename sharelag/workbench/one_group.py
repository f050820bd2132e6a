"""What was gathered of one group: its rows, their order, and how often it may deliver a record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.evidence import Evidence
from sharelag.model.settings import in_force
from sharelag.schemas import SHARE_PARTITION
from sharelag.tables.arrow import keys

_LIMIT = "share.delivery.count.limit"
#: Of a share partition, without its group.
_OF_TOPIC = ("topic_id", "partition")


def only(table: pa.Table | None, group: str | None) -> Any:
    """Return the rows of one group, or all; None stays as it is."""
    if group is None or table is None:
        return table
    return table.filter(pc.equal(table.column("group_id"), group))


def of_group(evidence: Evidence, group: str | None) -> Evidence:
    """Return what was gathered of one group, or all."""
    if group is None:
        return evidence
    names = (
        *("lag", "windows", "observed", "progress", "members", "groups", "holders", "brokers"),
        "measured",
    )
    mine = replace(evidence, **{name: only(getattr(evidence, name), group) for name in names})
    # Groups are ranked one by one: what was found in all of them holds for each.
    mine.ranked.update({key: only(found, group) for key, found in evidence.ranked.items()})
    return mine


def worst_first(table: pa.Table, evidence: Evidence, group: str) -> pa.Table:
    """Return rows of a group with the share partitions first that its causes name, then by lag.

    The order of the rows of a share partition stays.
    """
    from sharelag.metrics.explain import explain

    mine = of_group(evidence, group)
    named: dict[tuple[Any, Any], int] = {}
    for number, row in enumerate(explain(mine).to_pylist()):
        named.setdefault((row["topic_id"], row["partition"]), number)  # None: several partitions
    places = zip(*(mine.lag.column(name).to_pylist() for name in _OF_TOPIC), strict=True)
    ranks = [
        min(named.get(place, len(named)), named.get((place[0], None), len(named)))
        for place in places
    ]
    first = mine.lag.append_column("_rank", pa.array(ranks, pa.int64()))
    first = first.sort_by([("_rank", "ascending"), ("lag", "descending")])
    return first_come(table, first)


def first_come(table: pa.Table, first: pa.Table) -> pa.Table:
    """Return a table with some share partitions before the rest, in the order of another table."""
    place = pc.index_in(keys(table, SHARE_PARTITION), keys(first, SHARE_PARTITION))
    ordered = table.append_column("_place", place).sort_by([("_place", "ascending")])
    return ordered.drop_columns("_place")


def delivery_limit(settings: pa.Table, group: str) -> int | None:
    """How often a record of a group may be delivered, as far as it is known."""
    if not settings.num_rows:
        return None
    limit = in_force(settings, group)[_LIMIT].value
    return limit if isinstance(limit, int) else None
