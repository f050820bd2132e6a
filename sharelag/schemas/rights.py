"""Rights on a cluster: which commands take them, who has them, and how to grant them."""

from __future__ import annotations

import pyarrow as pa

#: What a broker answered about one right. It may let us do it, refuse it, or not tell (null).
ASKED_RIGHTS = pa.schema(
    [
        ("operation", pa.string()),  # as org.apache.kafka.common.acl.AclOperation has it
        ("resource_type", pa.string()),  # TOPIC, GROUP or CLUSTER
        ("resource", pa.string()),
        ("allowed", pa.bool_()),
    ]
)

#: One rule of the cluster's authorizer, as ``kafka-acls.sh --list`` has it.
ACLS = pa.schema(
    [
        ("principal", pa.string()),  # User:alice; User:* is everybody
        ("acl_host", pa.string()),  # an address; * is any
        ("operation", pa.string()),
        ("permission", pa.string()),  # ALLOW or DENY
        ("resource_type", pa.string()),
        ("pattern_type", pa.string()),  # LITERAL or PREFIXED
        ("resource", pa.string()),  # a name, or what it begins with; a literal * is every name
    ]
)

#: One right on one resource.
RIGHTS = pa.schema(
    [
        ("operation", pa.string()),
        ("resource_type", pa.string()),
        ("resource", pa.string()),  # null: every one; its names are not known
        ("granted", pa.string()),  # yes, no, unknown
        ("needed_by", pa.list_(pa.string())),  # end with an error without it
        ("used_by", pa.list_(pa.string())),  # leave something unknown without it
        ("purpose", pa.string()),
        ("grant", pa.string()),  # the command that grants it; null: granted, or not for clients
    ]
)
