"""Which settings of groups and brokers differ between two moments."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

_KEYS = ["scope", "group_id", "name"]
#: One setting of a group, or of the brokers, where ``group_id`` is null, that is not as it was.
SETTINGS_DRIFT = pa.schema(
    [
        (name, pa.string())
        for name in ("group_id", "name", "value_before", "value", "source_before", "source")
    ]
)


def settings_drift(before: pa.Table, now: pa.Table, groups: Iterable[str]) -> pa.Table:
    """Return the settings whose value differs, or where it comes from.

    Parameters
    ----------
    before, now : pyarrow.Table
        `sharelag.schemas.SETTINGS` of the two moments.
    groups : iterable of str
        Those to compare; the brokers always are.

    Returns
    -------
    pyarrow.Table
        `SETTINGS_DRIFT`, the groups' and then the brokers'. What is not known at both moments is
        not in it.
    """
    names = pa.array(sorted(groups), pa.string())
    both = _known(now, names).join(
        _known(before, names), keys=_KEYS, join_type="inner", right_suffix="_before"
    )
    differs = pc.or_(
        pc.not_equal(both.column("value"), both.column("value_before")),
        pc.not_equal(both.column("source"), both.column("source_before")),
    )
    order = [("scope", "descending"), ("group_id", "ascending"), ("name", "ascending")]
    rows = both.filter(differs).sort_by(order)
    group = rows.column("group_id")
    of_brokers = pc.equal(rows.column("scope"), "broker")
    known = pc.if_else(of_brokers, pa.scalar(None, pa.string()), group)
    index = rows.schema.get_field_index("group_id")
    return rows.set_column(index, "group_id", known).select(SETTINGS_DRIFT.names)


def _known(settings: pa.Table, groups: pa.Array) -> pa.Table:
    """Return what is known of brokers and these groups, with a name where brokers have null."""
    scope, entity = settings.column("scope"), settings.column("entity")
    is_group = pc.and_(pc.equal(scope, "group"), pc.is_in(entity, value_set=groups))
    wanted = pc.or_(pc.equal(scope, "broker"), pc.fill_null(is_group, False))
    rows = settings.filter(pc.and_(wanted, settings.column("value").is_valid()))
    group = pc.fill_null(rows.column("entity"), "")
    return pa.table(
        {"group_id": group}
        | {name: rows.column(name) for name in ("scope", "name", "value", "source")}
    )
