"""Rights that commands need on a cluster, and how to grant those that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from sharelag import schemas
from sharelag.metrics.acl_lines import SOMEBODY, grant
from sharelag.model.rights import CLUSTER, Right
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

YES, NO, UNKNOWN = "yes", "no", "unknown"
_FIRST = (NO, UNKNOWN, YES)

#: They read all that causes are found by.
_EVIDENCE = (
    *("explain", "progress", "imbalance", "check", "report", "capture", "export", "simulate"),
    *("plan-reset --simulate", "plan-delete", "history --events", "dlq", "mcp"),
)
_OF_GROUPS = ("capture", "groups", "members", "decode")
_WITHOUT_GROUPS = (*(one for one in _EVIDENCE if one not in _OF_GROUPS), "plan-reset")
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
    """One right: what takes it, and what for.

    Attributes
    ----------
    operation, resource_type
        As Kafka calls them.
    resource
        None: each topic or group that was named.
    needed_by
        Commands that end with an error without it.
    used_by
        Commands that leave something unknown without it.
    purpose
        What is read by it.
    of_clients
        Whether a client is ever granted it.
    """

    operation: str
    resource_type: str
    resource: str | None
    needed_by: tuple[str, ...]
    used_by: tuple[str, ...]
    purpose: str
    of_clients: bool = True


#: Rows are in this order. Kafka's own requests are in ``kafka.server.KafkaApis``.
NEEDS = (
    Need("DESCRIBE", "TOPIC", STATE_TOPIC, _STATE, (), "partitions and ends of the share state"),
    Need("READ", "TOPIC", STATE_TOPIC, _STATE, (), "records of the share state; no lag without"),
    Need(
        *("DESCRIBE", "TOPIC", GROUP_TOPIC, _OF_GROUPS, (*_WITHOUT_GROUPS, "brokers")),
        "partitions and ends of the groups' records; group coordinators",
    ),
    Need(
        *("READ", "TOPIC", GROUP_TOPIC, _OF_GROUPS, _WITHOUT_GROUPS),
        "records of groups, members and assignments",
    ),
    Need(
        *("DESCRIBE", "TOPIC", None, (CONSUMERS, _DESCRIBE)),
        tuple(one for one in _STATE if one not in ("decode", "health", "settings --all-groups")),
        "name, id, leaders and ends of the topic; lag is unknown without",
    ),
    Need(
        *("READ", "TOPIC", None, (CONSUMERS, "peek", _RESET, _DELETE_OFFSETS)),
        (*_EVIDENCE, "reconcile --true"),
        "times of records, for ages; the backlog itself",
    ),
    Need("DESCRIBE_CONFIGS", "TOPIC", None, (), _EVIDENCE, "retention and compaction of the topic"),
    Need("DESCRIBE_CONFIGS", "GROUP", None, (), (*_EVIDENCE, *_SETTINGS), "settings of the group"),
    Need(
        *("DESCRIBE_CONFIGS", "CLUSTER", CLUSTER, (), (*_EVIDENCE, *_SETTINGS)),
        "settings of the brokers",
    ),
    Need(
        *("DESCRIBE", "GROUP", None, (CONSUMERS, _DESCRIBE), ()),
        "what Kafka's command says of a group, for groups --kafka-output, reconcile --described",
    ),
    Need("READ", "GROUP", None, (CONSUMERS, _RESET), (), "to consume, and to change offsets"),
    Need("DELETE", "GROUP", None, (_DELETE, _DELETE_OFFSETS), (), "to delete groups and offsets"),
    Need(
        *("DESCRIBE", "CLUSTER", CLUSTER, (), ("doctor --rights --principal",)),
        "the rules of the authorizer, for the rights of others",
    ),
    Need(
        *("CLUSTER_ACTION", "CLUSTER", CLUSTER, (), ()),
        "ReadShareGroupState and the like, among brokers alone: sharelag reads the topic instead",
        False,
    ),
)


def wanted(groups: Iterable[str], topics: Iterable[str]) -> list[tuple[Right, Need]]:
    """Return every right on every resource that was named, in the order of `NEEDS`.

    Parameters
    ----------
    groups, topics : iterable of str
        Names; where there are none, the right on every one stands in for them.
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

    Parameters
    ----------
    asked : pyarrow.Table
        `sharelag.schemas.ASKED_RIGHTS`: what is known of some of them.
    groups, topics : sequence of str
        What the commands are about; without names, the right on every one is meant.
    principal : str
        Who gets it, such as ``User:alice``.
    server : str
        The address for Kafka's command.
    repairs : mapping of Right to str, optional
        What gives a right that a rule denies, which a grant alone does not.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.RIGHTS`, one row per right and resource, those missing first.
    """
    known = {
        Right(row["operation"], row["resource_type"], row["resource"]): row["allowed"]
        for row in asked.to_pylist()
    }
    rows: list[dict[str, Any]] = []
    for right, need in wanted(groups, topics):
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
    """Return the commands that would end with an error, each with the rights that it misses.

    Parameters
    ----------
    table : pyarrow.Table
        `sharelag.schemas.RIGHTS`.

    Returns
    -------
    dict of str to list of str
        Rights in words; several resources of one type are counted.
    """
    names: dict[tuple[str, str], list[str]] = {}
    commands: dict[str, list[tuple[str, str]]] = {}
    for row in table.to_pylist():
        if row["granted"] == NO:
            # The topics of coordinators are needed by other commands than those of users.
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
    """Return those of them that are commands of sharelag in their plain form."""
    return [command for command in failing(table) if command in _STATE]


def grants(table: pa.Table, of_consumers: bool = False) -> list[str]:
    """Return the commands that grant what is missing, as few as do.

    Parameters
    ----------
    table : pyarrow.Table
        `sharelag.schemas.RIGHTS`.
    of_consumers : bool
        What share consumers need, in place of what sharelag reads: it never gets the right to
        change a group by these.
    """
    missing = {
        (row["operation"], row["resource_type"], row["resource"]): row["grant"]
        for row in table.to_pylist()
        if row["granted"] == NO
        and row["grant"]
        and (
            CONSUMERS in row["needed_by"]
            if of_consumers
            else not {*_STATE}.isdisjoint([*row["needed_by"], *row["used_by"]])
        )
    }
    # Reading includes describing.
    return list(
        dict.fromkeys(
            line
            for (operation, *what), line in missing.items()
            if operation != "DESCRIBE" or ("READ", *what) not in missing
        )
    )
