"""Columns of rights on a cluster."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "operation": Column(Format.TEXT, "what is done, as Kafka's authorizer calls it"),
    "allowed": Column(Format.FLAG, "whether the broker allows it; null: it does not tell"),
    "principal": Column(
        Format.TEXT, "who a rule is about, such as User:alice; User:* is everybody"
    ),
    "acl_host": Column(Format.TEXT, "address that a rule is for; * is any", "HOST"),
    "permission": Column(Format.TEXT, "ALLOW or DENY, which wins"),
    "pattern_type": Column(
        Format.TEXT, "LITERAL, or PREFIXED: the resource is what its name begins with"
    ),
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
