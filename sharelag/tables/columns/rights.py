"""Columns of rights on a cluster."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "operation": Column(Format.TEXT, "what is done, as Kafka's authorizer calls it"),
    "resource_type": Column(Format.TEXT, "TOPIC, GROUP or CLUSTER", "TYPE"),
    "resource": Column(Format.TEXT, "name of the topic or group; null: every one"),
    "granted": Column(Format.TEXT, "yes, no, or unknown where the cluster does not tell"),
    "needed_by": Column(Format.LIST, "commands that end with an error without it"),
    "used_by": Column(Format.LIST, "commands that leave something unknown without it"),
    "purpose": Column(Format.TEXT, "what it is for"),
    "grant": Column(
        Format.TEXT, "the command that grants it; null: it is granted, or no client ever gets it"
    ),
}
