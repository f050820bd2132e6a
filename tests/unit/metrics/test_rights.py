"""Rights that commands need: what is said of those missing, and lines a shell can run.

What a principal may do by the rules of an authorizer.
"""

import shlex
import subprocess
from collections import Counter

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka.brokers import Authorizer
from sharelag.inputs.kafka.config import client_config
from sharelag.metrics.rights import (
    NO,
    UNKNOWN,
    YES,
    failing,
    failing_of_ours,
    grant,
    grants,
    judge_rights,
    list_needs,
    repairs,
    rights,
)
from sharelag.model import CLUSTER, Right
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from sharelag.workbench.rights import rights_of
from tests.support.records import assert_fields


def _asked(**allowed: bool | None) -> pa.Table:
    """Answers about the rights that one group and topic need; all yes but for those given."""
    rows = [
        {**right._asdict(), "allowed": allowed.get("_".join(map(str, right)), True)}
        for right, _ in list_needs(["billing"], ["orders"])
    ]
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def _table(**allowed: bool | None) -> pa.Table:
    return rights(_asked(**allowed), ["billing"], ["orders"], "User:alice", "broker:9092")


def test_what_is_granted_needs_no_command() -> None:
    table = _table()
    assert set(table.column("granted").to_pylist()) == {YES}
    assert (table.column("grant").null_count, failing(table)) == (table.num_rows, {})


def test_what_was_not_answered_is_unknown() -> None:
    table = rights(schemas.ASKED_RIGHTS.empty_table(), [], [])
    assert (set(table.column("granted").to_pylist()), failing(table)) == ({UNKNOWN}, {})
    every = [row for row in table.to_pylist() if row["resource"] is None]
    assert {row["resource_type"] for row in every} == {"TOPIC", "GROUP"}
    names = {shlex.split(row["grant"])[-1] for row in every}
    assert names == {"--topic=*", "--group=*"}


def test_a_missing_right_names_the_commands_that_fail() -> None:
    missing = {f"READ_TOPIC_{GROUP_TOPIC}": False, "READ_GROUP_billing": False}
    table = _table(**missing)
    denied = [row for row in table.to_pylist() if row["granted"] == NO]
    (row,) = (row for row in denied if row["resource"] == GROUP_TOPIC)
    assert row["grant"] == (
        "kafka-acls.sh --bootstrap-server broker:9092 --add --allow-principal=User:alice "
        "--operation Read --topic=__consumer_offsets"
    )
    found = failing(table)
    assert found["members"] == [f"READ on topic {GROUP_TOPIC}"]
    assert found["share consumers"] == ["READ on group billing"]
    assert "lag" not in found
    assert "share consumers" not in failing_of_ours(table)
    assert "members" in failing_of_ours(table)


def test_what_only_brokers_do_is_listed_and_never_granted() -> None:
    for allowed in (True, False, None):
        table = _table(**{f"CLUSTER_ACTION_CLUSTER_{CLUSTER}": allowed})
        (row,) = (row for row in table.to_pylist() if row["operation"] == "CLUSTER_ACTION")
        assert_fields(row, grant=None, needed_by=[])
        assert "sharelag reads the topic instead" in row["purpose"]


@pytest.mark.parametrize(
    "name",
    ["orders", "it's", "$(touch x)", "a b;c", "-x", "--list", "\n", "`id`", "*", "ü\x1b[31m", "!!"],
)
def test_a_shell_reads_the_name_as_it_is(name: str) -> None:
    line = grant(Right("READ", "GROUP", name), f"User:{name}", "broker:9092")
    script = f'kafka-acls.sh() {{ printf "%s\\0" "$@"; }}\n{line}\n'
    shell = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    words = shell.stdout.split("\0")[:-1]
    first = ["--bootstrap-server", "broker:9092", "--add", f"--allow-principal=User:{name}"]
    assert words == [*first, "--operation", "Read", f"--group={name}"]


def test_the_cluster_has_no_name_in_a_grant() -> None:
    line = grant(Right("DESCRIBE_CONFIGS", "CLUSTER", CLUSTER), "User:alice")
    assert line.endswith("--operation DescribeConfigs --cluster")


def test_the_state_topic_comes_first() -> None:
    first, second = [right for right, _ in list_needs(["g"], ["t"])][:2]
    assert first == Right("DESCRIBE", "TOPIC", STATE_TOPIC)
    assert second == Right("READ", "TOPIC", STATE_TOPIC)


def test_only_what_is_needed_is_offered() -> None:
    """Nobody who reads lag is offered the right to delete groups, or to read in their place."""
    nothing = {"_".join(map(str, right)): False for right, _ in list_needs(["billing"], ["orders"])}
    lines = grants(_table(**nothing))
    ends = [line.partition("--operation ")[2] for line in lines]
    assert ends == [
        *("Read --topic=__share_group_state", "Read --topic=__consumer_offsets"),
        *("Read --topic=orders", "DescribeConfigs --topic=orders"),
        *("DescribeConfigs --group=billing", "DescribeConfigs --cluster"),
    ]
    consumers = [line.partition("--operation ")[2] for line in grants(_table(**nothing), True)]
    assert (consumers, grants(_table())) == (["Read --topic=orders", "Read --group=billing"], [])
    unknown = rights(schemas.ASKED_RIGHTS.empty_table(), [], [])
    assert grants(unknown) == []


def test_many_groups_are_counted() -> None:
    groups = [f"g{n}" for n in range(500)]
    rows = [
        {**right._asdict(), "allowed": right.operation != "READ" or right.resource_type != "GROUP"}
        for right, _ in list_needs(groups, ["orders"])
    ]
    table = rights(pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS), groups, ["orders"])
    assert failing(table)["share consumers"] == ["READ on 500 groups"]


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
    # No rule binds a super user; of somebody who may be one, only what the rules allow is known.
    for is_super, expected in ((False, allowed), (True, True), (None, allowed or None)):
        table = judge_rights(_rules(*rules), right, "User:a", is_super)
        assert table.column("allowed").to_pylist() == [expected]


def test_what_no_rule_is_about_may_be_open_to_all() -> None:
    every = [Right("DESCRIBE", "TOPIC", name) for name in ("orders", "others")]
    rules = _rules("ALLOW User:b * READ TOPIC PREFIXED ord")
    for may_be_open, expected in ((False, [False, False]), (True, [False, None])):
        table = judge_rights(rules, every, "User:a", False, may_be_open)
        assert table.column("allowed").to_pylist() == expected


def test_every_topic_is_that_of_a_rule_for_all() -> None:
    every = [Right("DESCRIBE", "TOPIC", None)]
    for rules, allowed in (([READ], False), (["ALLOW User:a * READ TOPIC LITERAL *"], True)):
        table = judge_rights(_rules(*rules), every, "User:a", False)
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


ALICE = {"principal": "User:alice", "acl_host": "*", "permission": "ALLOW"}
ORDERS = {"resource_type": "TOPIC", "pattern_type": "LITERAL", "resource": "orders"}
READS = ALICE | ORDERS | {"operation": "READ"}


def judged(
    monkeypatch: pytest.MonkeyPatch, found: Authorizer, super_users: list[str] | None = None
) -> tuple[Counter[str], str]:
    """How often each is said of alice's rights on one group and topic, and what is not known."""
    monkeypatch.setattr("sharelag.workbench.rights.authorizer", lambda _: found)
    source = KafkaInput(client_config("127.0.0.1:9"))
    table, unknown = rights_of(source, ["g"], ["orders"], "User:alice", super_users)
    return Counter(table.column("granted").to_pylist()), " ".join(unknown)


def rules(*rows: dict[str, str]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schemas.ACLS)


def test_without_super_users_the_rules_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    said, unknown = judged(monkeypatch, Authorizer(rules(READS), False, False, True))
    assert (said[YES], said[UNKNOWN], unknown) == (2, 0, "")  # to read it, and to describe it
    none, unknown = judged(monkeypatch, Authorizer(rules(), False, False, True))
    assert (set(none), unknown) == ({NO}, "")


def test_super_users_that_brokers_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = Authorizer(rules(READS), True, False, True)
    said, unknown = judged(monkeypatch, hidden)
    assert (said[YES], said[NO]) == (2, 0)
    assert "whether the principal is a super user" in unknown
    said, unknown = judged(monkeypatch, hidden, ["User:admin"])
    assert (said[YES], said[UNKNOWN], unknown) == (2, 0, "")
    said, unknown = judged(monkeypatch, hidden, ["User:alice"])
    assert (set(said), unknown) == ({YES}, "")


def test_what_no_rule_is_about_and_rules_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    said, unknown = judged(monkeypatch, Authorizer(rules(READS), False, True, True))
    assert "allow.everyone.if.no.acl.found" in unknown
    assert said[YES] == 2
    assert said[NO] == 1  # another right on the topic that a rule is about
    said, unknown = judged(monkeypatch, Authorizer(rules(), False, False, False))
    assert set(said) == {UNKNOWN}
    assert "whether the authorizer has rules" in unknown
