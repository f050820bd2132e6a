"""Commands of Kafka that set what was checked. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from sharelag.model.settings.catalogue import find
from sharelag.model.versions import NEWEST
from sharelag.tables.words import client_words, shell_word


def kafkas_settings_commands(
    found: pa.Table,
    given: Mapping[str, str],
    groups: Iterable[str],
    profile: str = NEWEST,
    server: str | None = None,
    command_config: Path | None = None,
) -> list[str]:
    """Return the command of each group that sets its values, for bash.

    Parameters
    ----------
    found : pyarrow.Table
        `sharelag.metrics.settings_in_force.IN_FORCE`, of the checked values.
    given : mapping of name to value
        Those that were checked; settings of brokers are left out.
    groups : iterable of str
    profile : str
        The version whose settings they are.
    server, command_config : optional
        Of a running cluster.

    Returns
    -------
    list of str
        Empty where one of the values has a problem: a command sets all of them or none.
    """
    refused = {row["name"] for row in found.to_pylist() if row["problem"]}
    of_groups = {name: value for name, value in given.items() if _is_of_groups(name, profile)}
    if not of_groups or refused & given.keys():
        return []
    where = client_words(server, command_config)
    values = ",".join(f"{name}={_bracketed(value)}" for name, value in of_groups.items())
    change = ["--alter", "--add-config", values]
    lines = [
        ["kafka-configs.sh", *where, "--entity-type", "groups", "--entity-name", group, *change]
        for group in groups
    ]
    return [" ".join(map(shell_word, line)) for line in lines]


def _is_of_groups(name: str, profile: str) -> bool:
    setting = find(name, profile)
    return setting is not None and setting.scope == "group"


def _bracketed(value: str) -> str:
    """Return a value as ``--add-config`` takes it: commas end one that has no brackets."""
    return f"[{value}]" if "," in value else value
