"""Rights that commands need on a cluster, whether they are granted, and how to grant them.

Rules follow Kafka's ``StandardAuthorizer``; ``kafka-acls.sh`` commands are for bash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.model import CLUSTER, Right
from sharelag.tables.words import shell_word
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

#: The principal of a grant if the client settings do not have it.
SOMEBODY = "User:YOU"


def grant(right: Right, principal: str = SOMEBODY, server: str = "HOST:PORT") -> str:
    """Return the command that grants a right."""
    to = [f"--allow-principal={principal}"]
    return _line(server, "--add", to, right.operation, right.resource_type, right.resource or "*")


def allow_again(rule: Mapping[str, Any], server: str = "HOST:PORT") -> str:
    """Return the command that removes a denial, a row of `sharelag.schemas.ACLS`."""
    of = [f"--deny-principal={rule['principal']}"]
    if rule["acl_host"] != "*":
        of.append(f"--deny-host={rule['acl_host']}")
    if rule["pattern_type"] == "PREFIXED":
        of.append("--resource-pattern-type=prefixed")
    what = rule["operation"], rule["resource_type"], rule["resource"]
    return _line(server, "--remove", of, *what)


def _line(
    server: str, what: str, who: list[str], operation: str, resource_type: str, name: str
) -> str:
    words = ["kafka-acls.sh", "--bootstrap-server", server, what, *who]
    words += ["--operation", operation.title().replace("_", "")]
    if resource_type == "CLUSTER":
        words.append("--cluster")
    else:
        # With an equals sign: a name may begin with a dash.
        words.append(f"--{resource_type.lower()}={name}")
    return " ".join(map(shell_word, words))


#: ``StandardAuthorizerData.IMPLIES_DESCRIBE`` and its sibling: operations that imply another.
_IMPLIED_BY = {
    "DESCRIBE": frozenset(["READ", "WRITE", "DELETE", "ALTER"]),
    "DESCRIBE_CONFIGS": frozenset(["ALTER_CONFIGS"]),
}
_EVERYBODY, _ANY = "User:*", "*"


def judge_rights(
    rules: pa.Table,
    rights: Iterable[Right],
    principal: str,
    is_super: bool | None = None,
    may_be_open: bool = False,
) -> pa.Table:
    """Judge the rights of a principal such as ``User:alice`` by ACLs, as `ASKED_RIGHTS`.

    A right without a resource is judged by the rules for every name. No rule binds a super user;
    ``is_super`` None: unknown. ``may_be_open``: resources without a rule may be open to all
    (``allow.everyone.if.no.acl.found``). The answer is null if it depends on the principal's host,
    or if the rules do not allow it and the principal may be a super user.

    A denial wins, and forbids one operation or ALL. READ and DELETE also need DESCRIBE, to find
    leaders and coordinators.
    """
    if is_super:
        return allow_all(rights)
    mine = _of(rules, principal)
    every = rules.to_pylist() if may_be_open else []
    refused = None if is_super is None else False
    rows = []
    for right in dict.fromkeys(rights):
        is_open = may_be_open and not any(_matches(rule, right) for rule in every)
        answers = [_is_allowed(mine, one) for one in _with_describe(right)]
        if is_open:
            allowed = None
        else:
            allowed = refused if False in answers else None if None in answers else True
        rows.append({**right._asdict(), "allowed": allowed})
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def allow_all(rights: Iterable[Right]) -> pa.Table:
    """Allow all rights, for a cluster without an authorizer, as `ASKED_RIGHTS`."""
    rows = [{**right._asdict(), "allowed": True} for right in dict.fromkeys(rights)]
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def repairs(
    rules: pa.Table, rights: Iterable[Right], principal: str, server: str
) -> dict[Right, str]:
    """Return the commands that restore denied rights: they remove denials and grant the rest.

    Parameters as for `judge_rights`; ``server`` is the address for Kafka's command.
    """
    mine = _of(rules, principal)
    found = {}
    for right in dict.fromkeys(rights):
        lines = []
        for one in _with_describe(right):
            about = [rule for rule in mine if _matches(rule, one)]
            denials = [rule for rule in about if _covers(rule, "DENY", {one.operation, "ALL"})]
            lines += [allow_again(rule, server) for rule in denials]
        allows = [rule for rule in mine if rule["permission"] == "ALLOW"]
        if lines and not _is_allowed(allows, right):
            lines.append(grant(right, principal, server))
        if lines:
            found[right] = " && ".join(dict.fromkeys(lines))
    return found


def _of(rules: pa.Table, principal: str) -> list[dict[str, Any]]:
    names = pa.array([principal, _EVERYBODY])
    mine = rules.filter(pc.is_in(rules.column("principal"), names))
    found: list[dict[str, Any]] = mine.to_pylist()
    return found


def _with_describe(right: Right) -> list[Right]:
    """Return a right, with DESCRIBE if its operation needs that first."""
    if right.resource_type == "CLUSTER" or right.operation not in _IMPLIED_BY["DESCRIBE"]:
        return [right]
    return [right, right._replace(operation="DESCRIBE")]


def _covers(rule: Mapping[str, Any], permission: str, operations: Collection[str]) -> bool:
    return rule["permission"] == permission and rule["operation"] in operations


def _is_allowed(rules: Sequence[dict[str, Any]], right: Right) -> bool | None:
    about = [rule for rule in rules if _matches(rule, right)]
    denied = _applies(about, "DENY", {right.operation, "ALL"})
    if denied:
        return False
    also = _IMPLIED_BY.get(right.operation, frozenset())
    allowed = _applies(about, "ALLOW", {right.operation, "ALL"} | also)
    return None if allowed and denied is None else allowed


def _applies(
    rules: Sequence[dict[str, Any]], permission: str, operations: Collection[str]
) -> bool | None:
    """Return whether a rule applies to all hosts; None if only to some."""
    hosts = {rule["acl_host"] for rule in rules if _covers(rule, permission, operations)}
    return True if _ANY in hosts else None if hosts else False


def _matches(rule: dict[str, Any], right: Right) -> bool:
    if rule["resource_type"] != right.resource_type:
        return False
    if rule["pattern_type"] == "PREFIXED":
        return right.resource is not None and right.resource.startswith(rule["resource"])
    return rule["resource"] in (_ANY, right.resource)


YES, NO, UNKNOWN = "yes", "no", "unknown"
_FIRST = (NO, UNKNOWN, YES)

#: Commands that read all evidence of causes.
_EVIDENCE = (
    *("explain", "progress", "forecasts", "imbalance", "check", "report", "capture", "export"),
    *("simulate", "plan-reset --simulate", "plan-delete", "history --events", "dlq", "mcp"),
)
_GROUP_COMMANDS = ("capture", "groups", "members", "decode")
_WITHOUT_GROUPS = (*(one for one in _EVIDENCE if one not in _GROUP_COMMANDS), "plan-reset")
_SETTINGS = ("settings", "settings --all-groups")
_STATE = (
    *_EVIDENCE,
    *("plan-reset", "peek", "groups", "members", "decode"),
    *("lag", "windows", "history", "brokers", "health", "settings --all-groups", "reconcile"),
    "reconcile --true",
)
CONSUMERS = "share consumers"
_DESCRIBE, _RESET, _DELETE, _DELETE_OFFSETS = (
    f"kafka-share-groups.sh --{what}"
    for what in ("describe", "reset-offsets", "delete", "delete-offsets")
)


class Need(NamedTuple):
    """One right, with the commands that need it and the purpose."""

    operation: str  # named as in Kafka, like the type
    resource_type: str
    resource: str | None  # None: each named topic or group
    needed_by: tuple[str, ...]  # commands that fail without it
    used_by: tuple[str, ...]  # commands whose answers have unknowns without it
    purpose: str  # the data that it allows to read
    of_clients: bool = True  # whether clients can be granted it


#: The order of rows. ``kafka.server.KafkaApis`` has the rights of Kafka's requests.
NEEDS = (
    Need("DESCRIBE", "TOPIC", STATE_TOPIC, _STATE, (), "partitions and ends of the share state"),
    Need("READ", "TOPIC", STATE_TOPIC, _STATE, (), "records of the share state; no lag without"),
    Need("DESCRIBE", "TOPIC", GROUP_TOPIC, _GROUP_COMMANDS, (*_WITHOUT_GROUPS, "brokers"),
         "partitions and ends of the groups' records; group coordinators"),
    Need("READ", "TOPIC", GROUP_TOPIC, _GROUP_COMMANDS, _WITHOUT_GROUPS,
         "records of groups, members and assignments"),
    Need("DESCRIBE", "TOPIC", None, (CONSUMERS, _DESCRIBE),
         tuple(one for one in _STATE if one not in ("decode", "health", "settings --all-groups")),
         "name, id, leaders and ends of the topic; lag is unknown without"),
    Need("READ", "TOPIC", None, (CONSUMERS, "peek", _RESET, _DELETE_OFFSETS),
         (*_EVIDENCE, "reconcile --true"), "times of records, for ages; the backlog itself"),
    Need("DESCRIBE_CONFIGS", "TOPIC", None, (), _EVIDENCE, "retention and compaction of the topic"),
    Need("DESCRIBE_CONFIGS", "GROUP", None, (), (*_EVIDENCE, *_SETTINGS), "settings of the group"),
    Need("DESCRIBE_CONFIGS", "CLUSTER", CLUSTER, (), (*_EVIDENCE, *_SETTINGS),
         "settings of the brokers"),
    Need("DESCRIBE", "GROUP", None, (CONSUMERS, _DESCRIBE), (),
         "what Kafka's command says of a group, for groups --kafka-output, reconcile --described"),
    Need("READ", "GROUP", None, (CONSUMERS, _RESET), (), "to consume, and to change offsets"),
    Need("DELETE", "GROUP", None, (_DELETE, _DELETE_OFFSETS), (), "to delete groups and offsets"),
    Need("DESCRIBE", "CLUSTER", CLUSTER, (), ("doctor --rights --principal",),
         "the rules of the authorizer, for the rights of others"),
    Need("CLUSTER_ACTION", "CLUSTER", CLUSTER, (), (),
         "ReadShareGroupState and the like, among brokers alone: sharelag reads the topic instead",
         False),
)  # fmt: skip


def list_needs(groups: Iterable[str], topics: Iterable[str]) -> list[tuple[Right, Need]]:
    """Return every right on every named resource, in the order of `NEEDS`.

    Without a named group or topic, the right on every one stands in for it.
    """
    names: dict[str, list[str | None]] = {
        "GROUP": [*sorted(set(groups))] or [None],
        "TOPIC": [*sorted(set(topics))] or [None],
    }
    return [
        (Right(need.operation, need.resource_type, name), need)
        for need in NEEDS
        for name in ([need.resource] if need.resource else names[need.resource_type])
    ]


def rights(
    asked: pa.Table,
    groups: Sequence[str],
    topics: Sequence[str],
    principal: str = SOMEBODY,
    server: str = "HOST:PORT",
    repairs: Mapping[Right, str] | None = None,
) -> pa.Table:
    """Return every right that commands need, whether it is granted, and how to grant it.

    ``asked`` has the known ones as `ASKED_RIGHTS`. Without names of groups or topics, rights on
    every name are meant. Commands grant them to ``principal``, such as ``User:alice``, at the
    address ``server``; ``repairs`` has commands for denied rights, which a grant alone does not
    restore. The result is `sharelag.schemas.RIGHTS`, one row per right and resource, missing ones
    first.
    """
    known = {
        Right(row["operation"], row["resource_type"], row["resource"]): row["allowed"]
        for row in asked.to_pylist()
    }
    rows: list[dict[str, Any]] = []
    for right, need in list_needs(groups, topics):
        allowed = known.get(right)
        line = (repairs or {}).get(right) or grant(right, principal, server)
        rows.append(
            {
                **right._asdict(),
                "granted": UNKNOWN if allowed is None else YES if allowed else NO,
                "needed_by": list(need.needed_by),
                "used_by": list(need.used_by),
                "purpose": need.purpose,
                "grant": line if need.of_clients and not allowed else None,
            }
        )
    rows.sort(key=lambda row: _FIRST.index(row["granted"]))
    return pa.Table.from_pylist(rows, schema=schemas.RIGHTS)


#: Topics of the coordinators.
_OWN = (STATE_TOPIC, GROUP_TOPIC)


def failing(table: pa.Table) -> dict[str, list[str]]:
    """Return the commands that would fail, each with its missing rights in words.

    ``table`` is `sharelag.schemas.RIGHTS`; several resources of one type are counted.
    """
    names: dict[tuple[str, str], list[str]] = {}
    commands: dict[str, list[tuple[str, str]]] = {}
    for row in table.to_pylist():
        if row["granted"] == NO:
            # Other commands need the coordinators' topics than need users' topics.
            about = row["resource"] if row["resource"] in _OWN else row["resource_type"].lower()
            right = row["operation"], about
            names.setdefault(right, []).append(row["resource"])
            for command in row["needed_by"]:
                commands.setdefault(command, []).append(right)
    return {
        command: [_in_words(*right, names[right]) for right in dict.fromkeys(missing)]
        for command, missing in commands.items()
    }


def _in_words(operation: str, about: str, names: list[str]) -> str:
    if about in _OWN:
        return f"{operation} on topic {about}"
    if about == "cluster":
        return f"{operation} on the cluster"
    if len(names) == 1:
        return f"{operation} on {about} {names[0] or '*'}"
    return f"{operation} on {len(names)} {about}s"


def failing_of_ours(table: pa.Table) -> list[str]:
    """Return the commands of sharelag that would fail without any option."""
    return [command for command in failing(table) if command in _STATE]


def grants(table: pa.Table, of_consumers: bool = False) -> list[str]:
    """Return the fewest commands that grant the missing rights.

    With ``of_consumers`` they are the rights of share consumers instead of sharelag's, which never
    include the right to change a group.
    """
    missing = {}
    for row in table.to_pylist():
        commands = {*row["needed_by"]} if of_consumers else {*row["needed_by"], *row["used_by"]}
        are_meant = commands & ({CONSUMERS} if of_consumers else {*_STATE})
        if row["granted"] == NO and row["grant"] and are_meant:
            missing[row["operation"], row["resource_type"], row["resource"]] = row["grant"]
    for operation, *what in list(missing):
        if operation == "READ":  # implies DESCRIBE
            missing.pop(("DESCRIBE", *what), None)
    return list(dict.fromkeys(missing.values()))
