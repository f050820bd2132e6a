"""What a principal may do by the rules of an authorizer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.metrics.acls import judged, repairs
from sharelag.model.rights import Right


def _rules(*texts: str) -> pa.Table:
    """Rules as ``ALLOW User:a * READ TOPIC LITERAL orders``."""
    names = ("permission", "principal", "acl_host", "operation", "resource_type", "pattern_type")
    rows = [dict(zip((*names, "resource"), text.split(), strict=True)) for text in texts]
    return pa.Table.from_pylist(rows, schema=schemas.ACLS)


READ = "ALLOW User:a * READ TOPIC LITERAL orders"


@pytest.mark.parametrize(
    ("rules", "operation", "allowed"),
    [
        ([], "READ", False),
        (["DENY User:* * READ TOPIC LITERAL orders"], "READ", False),
        ([READ], "READ", True),
        ([READ], "DESCRIBE", True),  # implied
        ([READ], "DESCRIBE_CONFIGS", False),
        (["ALLOW User:a * ALTER_CONFIGS TOPIC LITERAL orders"], "DESCRIBE_CONFIGS", True),
        (["ALLOW User:a * DESCRIBE TOPIC LITERAL orders"], "READ", False),
        (["ALLOW User:a * ALL TOPIC LITERAL *"], "READ", True),
        (["ALLOW User:* * READ TOPIC PREFIXED ord"], "READ", True),
        (["ALLOW User:* * READ TOPIC PREFIXED orders-"], "READ", False),
        (["ALLOW User:b * READ TOPIC LITERAL orders"], "READ", False),
        (["ALLOW User:a * READ GROUP LITERAL orders"], "READ", False),
        ([READ, "DENY User:a * ALL TOPIC PREFIXED o"], "READ", False),
        # A denial implies nothing, but reading begins with describing.
        ([READ, "DENY User:a * DESCRIBE TOPIC LITERAL orders"], "READ", False),
        ([READ, "DENY User:a * READ TOPIC LITERAL orders"], "DESCRIBE", True),
        # Where the principal comes from is not known.
        (["ALLOW User:a 10.0.0.1 READ TOPIC LITERAL orders"], "READ", None),
        ([READ, "DENY User:a 10.0.0.1 READ TOPIC LITERAL orders"], "READ", None),
        (["DENY User:a 10.0.0.1 READ TOPIC LITERAL orders"], "READ", False),
    ],
)
def test_one_right(rules: list[str], operation: str, allowed: bool | None) -> None:
    right = [Right(operation, "TOPIC", "orders")]
    (found,) = judged(_rules(*rules), right, "User:a", False).column("allowed").to_pylist()
    assert found is allowed
    # No rule binds a super user; of somebody who may be one, only what the rules allow is known.
    (found,) = judged(_rules(*rules), right, "User:a", True).column("allowed").to_pylist()
    assert found is True
    (found,) = judged(_rules(*rules), right, "User:a").column("allowed").to_pylist()
    assert found is (True if allowed else None)


def test_what_no_rule_is_about_may_be_open_to_all() -> None:
    every = [Right("DESCRIBE", "TOPIC", name) for name in ("orders", "others")]
    rules = _rules("ALLOW User:b * READ TOPIC PREFIXED ord")
    for may_be_open, expected in ((False, [False, False]), (True, [False, None])):
        table = judged(rules, every, "User:a", False, may_be_open)
        assert table.column("allowed").to_pylist() == expected


def test_every_topic_is_that_of_a_rule_for_all() -> None:
    every = [Right("DESCRIBE", "TOPIC", None)]
    for rules, allowed in (([READ], False), (["ALLOW User:a * READ TOPIC LITERAL *"], True)):
        table = judged(_rules(*rules), every, "User:a", False)
        assert table.column("allowed").to_pylist() == [allowed]


def test_what_repairs_a_denial() -> None:
    read, describe = (Right(one, "TOPIC", "orders") for one in ("READ", "DESCRIBE"))
    rules = _rules(
        READ,
        "DENY User:a 10.0.0.1 ALL TOPIC PREFIXED ord",
        "DENY User:* * DESCRIBE_CONFIGS TOPIC LITERAL orders",
    )
    remove = (
        "kafka-acls.sh --bootstrap-server b:9092 --remove --deny-principal=User:a "
        "--deny-host=10.0.0.1 --resource-pattern-type=prefixed --operation All --topic=ord"
    )
    configs = Right("DESCRIBE_CONFIGS", "TOPIC", "orders")
    found = repairs(rules, [read, describe, configs], "User:a", "b:9092")
    assert found == {
        read: remove,
        describe: remove,
        configs: (
            f"{remove} && "
            "kafka-acls.sh --bootstrap-server b:9092 --remove '--deny-principal=User:*' "
            "--operation DescribeConfigs --topic=orders && kafka-acls.sh --bootstrap-server b:9092 "
            "--add --allow-principal=User:a --operation DescribeConfigs --topic=orders"
        ),
    }
    assert repairs(_rules(READ), [read], "User:a", "b:9092") == {}
