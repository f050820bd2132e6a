"""Types of groups that a draft of KIP-932 gave to records of consumer groups, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import listed
from sharelag.wire.group_types import SHARE, latest_types


def drafted_types(found: list[pa.Table], groups: Collection[str] = ()) -> Iterator[str]:
    """Yield what the types are, and who would take a share group for a consumer group.

    Parameters
    ----------
    found : list of pyarrow.Table
        `sharelag.wire.group_types.GROUP_TYPES`, in the order of the records.
    groups : collection of str
        Only these, if there are any.

    Yields
    ------
    str
        Nothing where every record has version 0, as those of Kafka do.
    """
    types = latest_types(found)
    if groups:
        types = types.filter(pc.is_in(types.column("group_id"), pa.array(sorted(groups))))
    if not types.num_rows or pc.max(types.column("version")).as_py() == 0:
        return
    by_type: dict[str, list[str]] = {}
    for group, kind in zip(
        *(types.column(n).to_pylist() for n in ("group_id", "type")), strict=True
    ):
        by_type.setdefault(kind or "unknown", []).append(group)
    words = "; ".join(f"{kind}: {listed(names)}" for kind, names in sorted(by_type.items()))
    yield f"types of groups in ConsumerGroupMetadata, as a draft of KIP-932 has them: {words}"
    if shares := by_type.get(SHARE):
        yield (
            "software that knows only version 0 of ConsumerGroupMetadata reads as consumer groups, "
            f"though they are share groups: {listed(shares)}"
        )
