"""The command that shows more about a cause of lag, to copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharelag.inputs import CaptureInput, KafkaInput, RawInput
from sharelag.inputs.files.archive import ArchiveInput
from sharelag.inputs.recorded import folder_of, samples
from sharelag.metrics.causes import HEADS, Cause, known_causes
from sharelag.tables.words import shell_word

#: Commands that take ``--topic``.
_TOPIC_COMMANDS = ("windows", "history", "progress", "reconcile", "explain", "plan-reset")


def next_command(cause: Mapping[str, Any], source: str, members: int | None = None) -> str:
    """Return the command line that shows more about a cause, a row of `sharelag.schemas.CAUSES`.

    ``source`` has the options that name the input, quoted for a shell. A simulation tries two
    members more than the group has, if that is known.
    """
    is_placed = bool(cause["topic"]) and cause["partition"] is not None
    if cause["cause"] == "open_transaction" and is_placed and "--bootstrap-server" in source:
        # Only Kafka knows the producer, and since when its transaction is open.
        place = f"--topic {shlex.quote(cause['topic'])} --partition {cause['partition']}"
        return f"kafka-transactions.sh {source} describe-producers {place}"
    offset = next((one["value"] for one in cause["evidence"] if one["name"] == "offset"), None)
    declared = {one.name: one for one in known_causes()}.get(cause["cause"])
    is_of_record = declared is not None and declared.what_if == HEADS
    if is_of_record and offset and "--bootstrap-server" in source:
        place = f"{cause['topic']}:{cause['partition']}:{offset}"
        # After --, because a name may begin with a dash.
        names = ["--"] if cause["group_id"].startswith("-") else []
        named = map(shell_word, (*names, cause["group_id"], place))
        return " ".join(["sharelag peek", source, *named])
    words = (declared or Cause).command.format(more=(members or 1) + 2)
    parts = [words, source, f"--group {shell_word(cause['group_id'])}"]
    if cause["topic"] and words.split()[0] in _TOPIC_COMMANDS:
        partition = "" if cause["partition"] is None else f":{cause['partition']}"
        parts.append(f"--topic {shlex.quote(cause['topic'] + partition)}")
    return " ".join(["sharelag", *filter(None, parts)])


def input_options(source: Any) -> str:
    """Return the options of a command line that name an input, quoted for a shell.

    Empty if no option does. A cluster's client properties are left out, as they may have secrets.
    """
    if isinstance(source, KafkaInput):
        return f"--bootstrap-server {shlex.quote(source.config.bootstrap_servers)}"
    if isinstance(source, CaptureInput | ArchiveInput):
        folder, name = source.folder, source.folder.name
        is_sample = name in samples() and folder_of(name) == folder
        return f"--capture {shlex.quote(name if is_sample else str(folder))}"
    if isinstance(source, RawInput):
        return f"--raw {shlex.quote(str(source.path))}"
    return ""


def address_of(source: Any) -> tuple[str | None, Path | None]:
    """Return address and properties file of a running cluster, for Kafka's commands."""
    if not isinstance(source, KafkaInput):
        return None, None
    return source.config.bootstrap_servers, source.config.command_config


def input_name(source: Any) -> str:
    """Return the short name of an input: the folder of a capture, the address of a cluster."""
    if isinstance(source, KafkaInput):
        return source.config.bootstrap_servers
    if isinstance(source, CaptureInput | ArchiveInput):
        return source.folder.resolve().name
    return ""
