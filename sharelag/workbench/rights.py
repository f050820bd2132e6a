"""Rights that commands need on a cluster, and whether they are granted."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import engines
from sharelag.errors import AuthorizationError, ClusterError, InputError, TopicMissingError
from sharelag.inputs import Input, KafkaInput
from sharelag.inputs.kafka.brokers import Authorizer, ask_rights, authorizer, principal_of
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.metrics.rights import (
    SOMEBODY,
    allow_all,
    failing,
    failing_of_ours,
    judge_rights,
    list_needs,
    repairs,
    rights,
)
from sharelag.model import CLUSTER, Right
from sharelag.replay.moment import Choice
from sharelag.tables.gaps import of_hidden

_LOG = logging.getLogger(__name__)
_NOT_A_CLUSTER = "rights belong to a running cluster: give --bootstrap-server HOST:PORT"
_NOT_SUPER = (
    "whether the principal is a super user, whom no rule binds: brokers do not show super.users; "
    "--super-users (super_users=) says who they are"
)
_NOT_OPEN = (
    "whether resources without ACLs are open to everyone: brokers do not show "
    "allow.everyone.if.no.acl.found"
)
_NO_PRINCIPAL = "super users are only for judging a principal: add --principal (principal=)"
_NO_RULES = "whether the authorizer has rules: the cluster lists none, or cannot list them"
_NO_NAMES = (
    "share groups and their topics, as the share state cannot be read: name them (--group, "
    "--topic) to see the rights on them"
)


def rights_of(
    source: Input,
    groups: Iterable[str] = (),
    topics: Iterable[str] = (),
    principal: str | None = None,
    super_users: Collection[str] | None = None,
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the rights that commands need, and whether the cluster grants them to a principal.

    The result is `sharelag.schemas.RIGHTS`, with sentences on unknowns. ``groups`` and ``topics``
    default to those of the share state. A ``principal`` such as ``User:alice`` is judged by the
    ACLs of the cluster; the default is the client's own. ``super_users`` is the brokers' setting
    ``super.users``, whose value they do not show. If it is set but not given, rights that the ACLs
    do not allow are unknown, because the principal may be a super user.
    """
    if not isinstance(source, KafkaInput):
        raise InputError(_NOT_A_CLUSTER)
    if principal is None and super_users is not None:
        raise InputError(_NO_PRINCIPAL)
    for one in (*([principal] if principal is not None else []), *(super_users or ())):
        if not re.fullmatch(r"\w+:.+", one, re.DOTALL):
            raise InputError(f"invalid principal {one!r}: give its type and name, User:alice")
    names, unknown = _names(source, sorted(set(groups)), sorted(set(topics)))
    config = source.config
    every = [right for right, _ in list_needs(*names)]
    whose = principal or principal_of(config)
    if principal in (None, principal_of(config)):  # brokers know the client's own rights
        asked = ask_rights(config, *names)
        # ACLs, if they may be listed, explain refused rights.
        allowed = {tuple(row.values())[:-1]: row["allowed"] for row in asked.to_pylist()}
        may_list = allowed.get(("DESCRIBE", "CLUSTER", CLUSTER))
        rules = _rules(config) if whose and may_list and False in allowed.values() else None
    else:
        found = authorizer(config)
        rules = None if found is None else found.rules
        if found is None:
            asked = allow_all(every)
        else:
            asked, not_known = _by_rules(found, every, principal, super_users)
            unknown += not_known
    servers = config.bootstrap_servers
    denied = {} if rules is None or not whose else repairs(rules, every, whose, servers)
    return rights(asked, *names, whose or SOMEBODY, servers, denied), unknown


def _by_rules(
    found: Authorizer, every: list[Right], principal: str, super_users: Collection[str] | None
) -> tuple[pa.Table, tuple[str, ...]]:
    """Judge rights by ACLs, and by the authorizer's settings that brokers show."""
    if super_users is not None:
        is_super: bool | None = principal in super_users
    else:
        is_super = None if found.may_have_super_users else False
    is_listed = found.is_kafkas or found.rules.num_rows > 0
    may_be_open = found.may_be_open or not is_listed
    asked = judge_rights(found.rules, every, principal, is_super, may_be_open)
    if is_super:
        return asked, ()
    if not is_listed:
        return asked, (_NO_RULES,)
    unknown = (_NOT_SUPER,) if is_super is None else ()
    return asked, unknown + ((_NOT_OPEN,) if found.may_be_open else ())


def _rules(config: ClientConfig) -> pa.Table | None:
    """Return the ACLs, which explain refused rights; None if they cannot be listed."""
    try:
        found = authorizer(config)
    except ClusterError as error:
        _LOG.info("the rules of the authorizer are not known: %s", error)
        return None
    return None if found is None else found.rules


def in_words(table: pa.Table, of_somebody: bool = False) -> tuple[str, ...]:
    """Return sentences on the commands that would fail without missing rights.

    They cover sharelag's commands; for another principal also share consumers and Kafka's commands.
    """
    by_rights: dict[str, list[str]] = {}
    ours = failing_of_ours(table)
    for command, missing in failing(table).items():
        if of_somebody or command in ours:
            by_rights.setdefault(" and ".join(missing), []).append(command)
    return tuple(
        f"without {missing}, these end with an error: {', '.join(commands)}"
        for missing, commands in by_rights.items()
    )


def _names(
    source: KafkaInput, groups: list[str], topics: list[str]
) -> tuple[tuple[list[str], list[str]], tuple[str, ...]]:
    """Return the groups and topics to ask about, and their unknowns."""
    if groups and topics:
        return (groups, topics), ()
    choice = Choice(groups=frozenset(groups))
    try:
        with engines.read(source, "local", None, choice, history=False) as reading:
            lag = reading.brief
    except (AuthorizationError, TopicMissingError):
        return (groups, topics), (_NO_NAMES,)
    seen = pc.unique(lag.column("topic")).drop_null().to_pylist()
    found = groups or sorted(pc.unique(lag.column("group_id")).to_pylist())
    return (found, topics or sorted(seen)), () if topics else of_hidden(lag)
