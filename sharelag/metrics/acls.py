"""What somebody may do, by the rules of an authorizer: Kafka's ``StandardAuthorizer``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.model.rights import Right

#: ``StandardAuthorizerData.IMPLIES_DESCRIBE`` and its sibling: who may do these may do that, too.
_IMPLIED_BY = {
    "DESCRIBE": frozenset(["READ", "WRITE", "DELETE", "ALTER"]),
    "DESCRIBE_CONFIGS": frozenset(["ALTER_CONFIGS"]),
}
_EVERYBODY, _ANY = "User:*", "*"


def judged(rules: pa.Table, wanted: Iterable[Right], principal: str) -> pa.Table:
    """Return what a principal may do by the rules.

    Parameters
    ----------
    rules : pyarrow.Table
        `sharelag.schemas.ACLS`.
    wanted : iterable of Right
        One without a resource is judged by the rules for every name.
    principal : str
        Such as ``User:alice``.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.ASKED_RIGHTS`; null where it depends on the host the principal comes from.

    Notes
    -----
    A denial wins, and is of one operation alone or of ALL. Reading, or deleting, starts with what
    DESCRIBE allows: finding leaders and coordinators. Super users, and
    ``allow.everyone.if.no.acl.found``, are no rules.
    """
    mine = rules.filter(
        pc.is_in(rules.column("principal"), pa.array([principal, _EVERYBODY]))
    ).to_pylist()
    rows = []
    for right in dict.fromkeys(wanted):
        answers = [_allowed(mine, right)]
        if right.resource_type != "CLUSTER" and right.operation in _IMPLIED_BY["DESCRIBE"]:
            answers.append(_allowed(mine, right._replace(operation="DESCRIBE")))
        allowed = False if False in answers else None if None in answers else True
        rows.append({**right._asdict(), "allowed": allowed})
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def allowed_all(wanted: Iterable[Right]) -> pa.Table:
    """Return the same for a cluster without an authorizer."""
    rows = [{**right._asdict(), "allowed": True} for right in dict.fromkeys(wanted)]
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def _allowed(rules: Sequence[dict[str, Any]], right: Right) -> bool | None:
    about = [rule for rule in rules if _matches(rule, right)]
    denied = _decided(about, "DENY", {right.operation, "ALL"})
    if denied:
        return False
    also = _IMPLIED_BY.get(right.operation, frozenset())
    allowed = _decided(about, "ALLOW", {right.operation, "ALL"} | also)
    return None if allowed and denied is None else allowed


def _decided(
    rules: Sequence[dict[str, Any]], permission: str, operations: Iterable[str]
) -> bool | None:
    """Whether a rule says so for all hosts; None if only for some."""
    hosts = {
        rule["acl_host"]
        for rule in rules
        if rule["permission"] == permission and rule["operation"] in operations
    }
    return True if _ANY in hosts else None if hosts else False


def _matches(rule: dict[str, Any], right: Right) -> bool:
    if rule["resource_type"] != right.resource_type:
        return False
    if rule["pattern_type"] == "PREFIXED":
        return right.resource is not None and right.resource.startswith(rule["resource"])
    return rule["resource"] in (_ANY, right.resource)
