"""Settings of groups and brokers as rows: value, source, accepted range and problems.

Also their differences between two moments, and Kafka's commands that set checked values. No I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.model.kafka_commands import Checked
from sharelag.model.settings import Setting, Value, check_all, each_in_force, lint_consumer
from sharelag.model.settings.catalogue import FIRST, LATER, Typed, catalogue, find
from sharelag.model.settings.queues import CREATED, PREFIX, TOPIC, Queues, begins_a_name
from sharelag.model.settings.rules import OF_GROUP, Problem, value_in
from sharelag.model.versions import ASSUMED, NEWEST, RELEASES, Basis, basis
from sharelag.schemas import IN_FORCE, LINT, SETTINGS_DRIFT
from sharelag.tables.arrow import as_table, ascending, with_columns
from sharelag.tables.words import client_words, shell_word

_FACTOR = "share.coordinator.state.topic.replication.factor"
_LEAST = "share.coordinator.state.topic.min.isr"


def cautions(
    values: Mapping[str, object],
    brokers: int | None,
    profile: str = NEWEST,
    queues: Queues | None = None,
) -> Iterator[Problem]:
    """Yield problems of settings that Kafka accepts.

    Settings missing from ``values`` have Kafka's defaults; ``brokers`` is the number of brokers,
    ``queues`` describes the topics that groups name as dead-letter queues.

    ``AutoTopicCreationManager`` creates the state topic with the replication factor; a share
    coordinator writes with ``acks=all``, which ``min.insync.replicas`` refuses on too few replicas.
    """
    if topic := str(value_in(TOPIC, values, profile) or ""):
        known = queues or Queues(brokers={PREFIX: str(value_in(PREFIX, {}, profile) or "")})
        given = {name: str(values[name]).lower() for name in (CREATED,) if name in values}
        given |= {name: str(values[name]) for name in (PREFIX,) if name in values}
        if found := replace(known, brokers={**known.brokers, **given}).problem(topic):
            yield found
    prefix = str(value_in(PREFIX, values, profile) or "")
    if PREFIX in values and not begins_a_name(prefix):
        yield Problem(
            PREFIX,
            prefix,
            "no topic that groups may name can begin with it, so all letters are lost",
            "use letters, digits, dots, dashes and underscores, without __ at the beginning",
        )
    factor, least = (value_in(name, values, profile) for name in (_FACTOR, _LEAST))
    # No warning about Kafka's defaults just because brokers hide their settings.
    if not isinstance(factor, int) or values.keys().isdisjoint((_FACTOR, _LEAST)):
        return
    if _FACTOR in values and brokers is not None and factor > brokers:
        yield Problem(
            _FACTOR,
            str(factor),
            f"it is more than the brokers that are up, {brokers}: no state topic can be created, "
            "where there is none yet",
            f"start brokers that are down, add some, or set it to at most {brokers}",
        )
    if isinstance(least, int) and least > factor:
        yield Problem(
            _LEAST,
            str(least),
            f"it is more than {_FACTOR} = {factor}: no write to the state topic succeeds",
            f"set it below {_FACTOR}, so that one replica may be down",
        )


#: The text of a table without problems.
NO_CONFLICT = "no setting conflicts with another, or with what Kafka accepts"
#: The start of a problem with a value that Kafka accepts but that does not work.
ACCEPTED = "Kafka accepts it, but "
_VERSION_UNKNOWN = "by the settings that are known, as the input does not have their version"
_GIVEN = "given"


def settings_in_force(
    settings: pa.Table,
    groups: Iterable[str],
    given: Mapping[str, str] | None = None,
    brokers: int | None = None,
    kafka_version: str | None = None,
) -> pa.Table:
    """Return the settings of groups, then of their brokers, each checked with the others.

    A setting that is not in ``settings`` has Kafka's default; ``given`` values are checked as if
    they were set. ``brokers`` is the number of brokers, if known. ``kafka_version`` defaults to
    that of `choose_basis`. The result is `IN_FORCE`.
    """
    found = each_in_force(settings, [*groups, ""])
    theirs = found.pop("")
    profile = choose_basis(settings, kafka_version, FIRST).version
    queues = Queues.of(settings)
    rows: list[dict[str, Any]] = []
    checked: dict[int, range] = {}  # most groups have the same values, in the same mapping
    for force in found.values():
        if id(force) not in checked:
            first = len(rows)
            rows += _rows(force, given or {}, "group", profile, queues=queues)
            checked[id(force)] = range(first, len(rows))
    each = [checked[id(force)] for force in found.values()]
    of_brokers = list(_rows(theirs, given or {}, "broker", profile, brokers))
    places = [*chain.from_iterable(each), *range(len(rows), len(rows) + len(of_brokers))]
    table = pa.Table.from_pylist([*rows, *of_brokers], schema=IN_FORCE).take(pa.array(places))
    names = pa.array([*found, None], pa.string())
    of_each = np.repeat(np.arange(len(names)), [*map(len, each), len(of_brokers)])
    return as_table(with_columns(table, {"group_id": names.take(pa.array(of_each))}))


def choose_basis(
    settings: pa.Table, kafka_version: str | None = None, oldest: str = RELEASES[0], whose: str = ""
) -> Basis:
    """Return the version to check settings and commands of an input against.

    It is that of the brokers, if known. Otherwise brokers that describe settings, but none of Kafka
    4.4, are older, and the rules of 4.3 hold for all of them. Without settings it is the newest.
    Parameters and errors as for `sharelag.model.versions.basis`.
    """
    default, names = ASSUMED, set(settings.column("name").to_pylist())
    if names:
        is_later = any(one.name in names for one in LATER)
        default = Basis(NEWEST if is_later else "4.3", _VERSION_UNKNOWN)
    return basis(kafka_version, default, oldest, whose)


def is_refused(found: pa.Table) -> bool:
    """Return whether Kafka would refuse any of the settings in a table of `IN_FORCE`."""
    accepted = pc.starts_with(found.column("problem"), ACCEPTED)
    return bool(pc.any(pc.invert(accepted)).as_py())


def check_given(given: Mapping[str, str], profile: str = NEWEST) -> pa.Table:
    """Check values as if they were set on brokers and groups that have Kafka's defaults.

    ``profile`` is a version, or "draft". The result is `IN_FORCE`: the given settings, and those
    that they conflict with.
    """
    return pa.Table.from_pylist(list(_rows({}, given, None, profile)), schema=IN_FORCE)


def lint_rows(
    properties: Mapping[str, object], settings: pa.Table | None = None, group: str = ""
) -> pa.Table:
    """Return the problems of a consumer's properties, as `LINT`.

    ``settings`` are those of ``group``, by default the property ``group.id``, which commands in
    hints name.
    """
    group = group or str(properties.get("group.id") or "")
    force = {} if settings is None else each_in_force(settings, [group])[group]
    known = {name: value for name, value in force.items() if value.source != "assumed"}
    named = f"--entity-name {shell_word(group)}" if group else OF_GROUP
    rows = [
        (one.name, one.value or None, one.why, one.hint.replace(OF_GROUP, named))
        for one in lint_consumer(properties, known)
    ]
    return pa.Table.from_pylist([dict(zip(LINT.names, row, strict=True)) for row in rows], LINT)


def _rows(
    force: Mapping[str, Value],
    given: Mapping[str, str],
    scope: str | None,
    profile: str = NEWEST,
    brokers: int | None = None,
    queues: Queues | None = None,
) -> Iterator[dict[str, Any]]:
    values: dict[str, object] = {
        name: one.value
        for name, one in force.items()
        if one.source != "assumed" and one.value is not None
    }
    values |= given
    problems: defaultdict[str, list[Problem]] = defaultdict(list)
    for problem in check_all(values, profile):
        problems[problem.name].append(problem)
    for problem in cautions(values, brokers, profile, queues):
        if problem.name not in problems:
            problems[problem.name] = [replace(problem, why=ACCEPTED + problem.why)]
    known = {setting.name: setting for setting in reversed(catalogue(profile))}
    names = [name for name in reversed(known) if name in force or name in given or problems[name]]
    for name in (*names, *(name for name in given if name not in known)):
        setting = known.get(name)
        if setting is not None and scope not in (None, setting.scope):
            continue
        if setting is None and scope == "group":
            continue  # an unknown name is reported once, with the brokers' settings
        if name in given:
            value, source = Value(given[name], _GIVEN)
        elif setting is not None:
            value, source = force.get(name, Value(setting.default, "default"))
            if setting.internal and source == "assumed":
                continue  # brokers do not describe it
        yield {
            "name": name,
            "value": _text(value),
            "source": source,
            "default": None if setting is None else _text(setting.default),
            "range": None if setting is None else _range(setting, values, profile),
            "problem": "; ".join(_whys(setting, value, problems[name])) or None,
            "hint": "; ".join(filter(None, (one.hint for one in problems[name]))) or None,
        }


def _whys(setting: Setting | None, value: Typed, problems: Sequence[Problem]) -> Iterator[str]:
    yield from (problem.why for problem in problems)
    names = (_text(value) or "").split(",")
    if setting is not None and setting.kind == "list" and len(names) > 1:
        yield f"{'' if problems else ACCEPTED}only the first is used: {names[0].strip()}"


def _text(value: Typed) -> str | None:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _range(setting: Setting, values: Mapping[str, object], profile: str) -> str | None:
    """Return the accepted range, within the bounds of other settings."""
    if setting.kind == "bool":
        return "true, false"
    if setting.choices:
        pattern = ["by_duration:PnDTnHnMn.nS"] if setting.pattern else []
        return ", ".join((*setting.choices, *pattern))
    least, greatest = bounds(setting, values, profile)
    if least is None and greatest is None:
        return None
    return f"{'' if least is None else least}..{'' if greatest is None else greatest}"


def bounds(
    setting: Setting, values: Mapping[str, object], profile: str = NEWEST
) -> tuple[int | None, int | None]:
    """Return the minimum and maximum of a setting that brokers with these values accept."""
    return (
        _bound(max, setting.least, setting.least_by, values, profile),
        _bound(min, setting.greatest, setting.greatest_by, values, profile),
    )


def _bound(
    tighter: Any, own: int | None, by: str | None, values: Mapping[str, object], profile: str
) -> int | None:
    other = value_in(by, values, profile) if by else None
    numbers = [number for number in (own, other) if isinstance(number, int)]
    return tighter(numbers) if numbers else None


_KEYS = ["scope", "group_id", "name"]


def settings_drift(before: pa.Table, now: pa.Table, groups: Iterable[str]) -> pa.Table:
    """Return the settings whose value or source differs between two moments, as `SETTINGS_DRIFT`.

    It has those of the groups, then those of the brokers. Settings that are unknown at one of the
    moments are left out.
    """
    names = pa.array(sorted(groups), pa.string())
    both = _known(now, names).join(
        _known(before, names), keys=_KEYS, join_type="inner", right_suffix="_before"
    )
    value, source = (
        pc.not_equal(both.column(name), both.column(f"{name}_before"))
        for name in ("value", "source")
    )
    order = [("scope", "descending"), *ascending("group_id", "name")]
    rows = both.filter(pc.or_(value, source)).sort_by(order)
    of_brokers = pc.equal(rows.column("scope"), "broker")
    known = pc.if_else(of_brokers, None, rows.column("group_id"))
    index = rows.schema.get_field_index("group_id")
    return rows.set_column(index, "group_id", known).select(SETTINGS_DRIFT.names)


def _known(settings: pa.Table, groups: pa.Array) -> pa.Table:
    """Return the known settings of brokers and these groups, with a name in place of null."""
    scope, entity = settings.column("scope"), settings.column("entity")
    is_group = pc.and_(pc.equal(scope, "group"), pc.is_in(entity, value_set=groups))
    is_chosen = pc.or_(pc.equal(scope, "broker"), pc.fill_null(is_group, False))
    rows = settings.filter(pc.and_(is_chosen, settings.column("value").is_valid()))
    columns = {name: rows.column(name) for name in ("scope", "name", "value", "source")}
    return pa.table(columns | {"group_id": pc.fill_null(rows.column("entity"), "")})


def setting_commands(
    found: pa.Table,
    given: Mapping[str, str],
    groups: Iterable[str],
    profile: str = NEWEST,
    server: str | None = None,
    command_config: Path | None = None,
) -> list[str]:
    """Return a bash command per group that sets its values.

    A group has no command if one of its values has a problem, because a command sets all or none.
    ``found`` has the checked values as `IN_FORCE`; settings of brokers are left out. ``profile`` is
    the version of the settings; ``server`` and ``command_config`` are those of a running cluster.
    """
    refused = set(found.filter(found.column("problem").is_valid()).column("name").to_pylist())
    scopes = {name: getattr(find(name, profile), "scope", None) for name in given}
    of_groups = {name: value for name, value in given.items() if scopes[name] == "group"}
    if not of_groups or refused & given.keys():
        return []
    where = client_words(server, command_config)
    # Without brackets, a comma would end a value.
    quoted = {name: f"[{text}]" if "," in text else text for name, text in of_groups.items()}
    values = ",".join(f"{name}={text}" for name, text in quoted.items())
    change = ["--alter", "--add-config", values]
    lines = [
        ["kafka-configs.sh", *where, "--entity-type", "groups", "--entity-name", group, *change]
        for group in groups
    ]
    return [" ".join(map(shell_word, line)) for line in lines]


def lint_table(checked: Checked) -> pa.Table:
    """Return the options of a command line with their problems, as `LINT`.

    They include options that were not given and have a default in Kafka, and say so.
    """
    values: dict[str, str | None] = {}
    for name, texts in checked.given.items():
        values[f"--{name}"] = " ".join(text for text in texts if text is not None) or None
    values |= {f"--{name}": value for name, value in checked.in_force.items()}
    for one in checked.problems:
        values.setdefault(one.name, None)
    rows = []
    for option, value in values.items():
        found = [one for one in checked.problems if one.name == option]
        hint = "; ".join(one.hint for one in found if one.hint) or None
        name = option.removeprefix("--")
        if name in checked.in_force:
            kip = checked.tool.of_the_kip.get(name)
            hint = "not given: Kafka's default" + (f"; {kip} in KIP-932" if kip else "")
        why = "; ".join(one.why for one in found) or None
        rows.append({"name": option, "value": value, "problem": why, "hint": hint})
    return pa.Table.from_pylist(rows, schema=LINT)
