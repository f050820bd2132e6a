"""A plan to send dead letters again, with commands of Kafka; nothing here sends anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.metrics.dead_letter_ledger import STATUSES
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table
from sharelag.schemas.dead_letters import REDRIVE
from sharelag.tables.words import client_words, shell_word

#: What a redrive is planned of, when nobody says otherwise.
REDRIVEN = ("written", "duplicate", "missing", "passed")


def redrive_arrow(
    ledger: Arrow,
    statuses: tuple[str, ...] = REDRIVEN,
    server: str | None = None,
    command_config: str | Path | None = None,
) -> pa.Table:
    """Plan how to send dead letters again: what still has each record, and a command that sends it.

    Parameters
    ----------
    ledger : pyarrow.RecordBatch or pyarrow.Table
        `LEDGER`.
    statuses : tuple of str
        Of what.
    server, command_config : optional
        The address and the file of client settings in the commands.

    Returns
    -------
    pyarrow.Table
        `REDRIVE`. ``from`` is ``source`` where the log of the topic still has the records, else
        ``queue`` where the queue has copies, else ``lost``. There is no command for what is lost,
        nor for copies that other records lie between.

    Raises
    ------
    InputError
        A status does not exist, or there is nothing to send of it.
    """
    if "marker" in statuses:
        raise InputError(
            "there is nothing to send of markers of transactions: leave out the status marker"
        )
    if unknown := [name for name in statuses if name not in STATUSES]:
        raise InputError(f"unknown status {unknown[0]!r}: choose one of {', '.join(STATUSES)}")
    table = as_table(ledger)
    wanted = table.filter(pc.is_in(table.column("status"), pa.array(statuses, pa.string())))
    client = client_words(server, command_config)
    rows = []
    for row in wanted.to_pylist():
        where = "source" if row["retained"] else "queue" if row["copied"] else "lost"
        kept = {name: row[name] for name in REDRIVE.names if name in row}
        rows.append(kept | {"from": where, "command": _command(row, where, client)})
    return pa.Table.from_pylist(rows, schema=REDRIVE)


def _command(row: dict[str, Any], where: str, client: list[str]) -> str | None:
    if where == "lost" or row["topic"] is None:
        return None
    if where == "source":
        place = (row["topic"], row["partition"], row["first_offset"])
    else:
        between = row["last_queue_offset"] - row["first_queue_offset"] + 1
        if not between == row["letters"] == row["offsets"]:
            return None
        place = (row["queue"], row["queue_partition"], row["first_queue_offset"])
    topic, partition, begin = place
    reader = ["kafka-console-consumer.sh", *client, "--topic", topic]
    reader += ["--partition", str(partition), "--offset", str(begin)]
    reader += ["--max-messages", str(row["offsets"]), "--formatter-property", "print.key=true"]
    writer = ["kafka-console-producer.sh", *client, "--topic", row["topic"]]
    writer += ["--reader-property", "parse.key=true"]
    return " | ".join(" ".join(map(shell_word, words)) for words in (reader, writer))
