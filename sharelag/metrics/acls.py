"""What somebody may do, by the rules of an authorizer: Kafka's ``StandardAuthorizer``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.acl_lines import allow_again, grant
from sharelag.model.rights import Right

#: ``StandardAuthorizerData.IMPLIES_DESCRIBE`` and its sibling: who may do these may do that, too.
_IMPLIED_BY = {
    "DESCRIBE": frozenset(["READ", "WRITE", "DELETE", "ALTER"]),
    "DESCRIBE_CONFIGS": frozenset(["ALTER_CONFIGS"]),
}
_EVERYBODY, _ANY = "User:*", "*"


def judged(
    rules: pa.Table,
    wanted: Iterable[Right],
    principal: str,
    is_super: bool | None = None,
    may_be_open: bool = False,
) -> pa.Table:
    """Return what a principal may do by the rules.

    Parameters
    ----------
    rules : pyarrow.Table
        `sharelag.schemas.ACLS`.
    wanted : iterable of Right
        One without a resource is judged by the rules for every name.
    principal : str
        Such as ``User:alice``.
    is_super : bool, optional
        Whether it is a super user, whom no rule binds; None: not known.
    may_be_open : bool
        Whether what no rule is about may be allowed to all (``allow.everyone.if.no.acl.found``).

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.ASKED_RIGHTS`; null where it depends on the host the principal comes from,
        and in place of what the rules do not allow to somebody who may be a super user.

    Notes
    -----
    A denial wins, and forbids one operation alone, or ALL. Reading, or deleting, starts with what
    DESCRIBE allows: finding leaders and coordinators.
    """
    if is_super:
        return allowed_all(wanted)
    mine = _of(rules, principal)
    every = rules.to_pylist() if may_be_open else []
    refused = None if is_super is None else False
    rows = []
    for right in dict.fromkeys(wanted):
        is_open = may_be_open and not any(_matches(rule, right) for rule in every)
        answers = [_allowed(mine, one) for one in _with_describe(right)]
        if is_open:
            allowed = None
        else:
            allowed = refused if False in answers else None if None in answers else True
        rows.append({**right._asdict(), "allowed": allowed})
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def allowed_all(wanted: Iterable[Right]) -> pa.Table:
    """Return the same for a cluster without an authorizer."""
    rows = [{**right._asdict(), "allowed": True} for right in dict.fromkeys(wanted)]
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def repairs(
    rules: pa.Table, wanted: Iterable[Right], principal: str, server: str
) -> dict[Right, str]:
    """Return what gives the rights that rules deny: lines that remove these, and grant the rest.

    Parameters
    ----------
    rules, wanted, principal
        As for `judged`.
    server : str
        The address for Kafka's command.
    """
    mine = _of(rules, principal)
    found = {}
    for right in dict.fromkeys(wanted):
        lines = []
        for one in _with_describe(right):
            about = [rule for rule in mine if _matches(rule, one)]
            denials = [rule for rule in about if _says(rule, "DENY", {one.operation, "ALL"})]
            lines += [allow_again(rule, server) for rule in denials]
        allows = [rule for rule in mine if rule["permission"] == "ALLOW"]
        if lines and not _allowed(allows, right):
            lines.append(grant(right, principal, server))
        if lines:
            found[right] = " && ".join(dict.fromkeys(lines))
    return found


def _of(rules: pa.Table, principal: str) -> list[dict[str, Any]]:
    names = pa.array([principal, _EVERYBODY])
    mine: list[dict[str, Any]] = rules.filter(
        pc.is_in(rules.column("principal"), names)
    ).to_pylist()
    return mine


def _with_describe(right: Right) -> list[Right]:
    """Return a right with that to describe, where what it allows starts with describing."""
    if right.resource_type == "CLUSTER" or right.operation not in _IMPLIED_BY["DESCRIBE"]:
        return [right]
    return [right, right._replace(operation="DESCRIBE")]


def _says(rule: Mapping[str, Any], permission: str, operations: Collection[str]) -> bool:
    return rule["permission"] == permission and rule["operation"] in operations


def _allowed(rules: Sequence[dict[str, Any]], right: Right) -> bool | None:
    about = [rule for rule in rules if _matches(rule, right)]
    denied = _decided(about, "DENY", {right.operation, "ALL"})
    if denied:
        return False
    also = _IMPLIED_BY.get(right.operation, frozenset())
    allowed = _decided(about, "ALLOW", {right.operation, "ALL"} | also)
    return None if allowed and denied is None else allowed


def _decided(
    rules: Sequence[dict[str, Any]], permission: str, operations: Collection[str]
) -> bool | None:
    """Whether a rule says so for all hosts; None if only for some."""
    hosts = {rule["acl_host"] for rule in rules if _says(rule, permission, operations)}
    return True if _ANY in hosts else None if hosts else False


def _matches(rule: dict[str, Any], right: Right) -> bool:
    if rule["resource_type"] != right.resource_type:
        return False
    if rule["pattern_type"] == "PREFIXED":
        return right.resource is not None and right.resource.startswith(rule["resource"])
    return rule["resource"] in (_ANY, right.resource)
