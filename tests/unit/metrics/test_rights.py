"""Rights that commands need: what is said of those missing, and lines a shell can run."""

from __future__ import annotations

import shlex
import subprocess

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.metrics.acl_lines import grant
from sharelag.metrics.rights import (
    NO,
    UNKNOWN,
    YES,
    failing,
    failing_of_ours,
    grants,
    rights,
    wanted,
)
from sharelag.model.rights import CLUSTER, Right
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC


def _asked(**allowed: bool | None) -> pa.Table:
    """Answers about the rights in `wanted` of one group and topic; all yes but for those given."""
    rows = [
        {**right._asdict(), "allowed": allowed.get("_".join(map(str, right)), True)}
        for right, _ in wanted(["billing"], ["orders"])
    ]
    return pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS)


def _table(**allowed: bool | None) -> pa.Table:
    return rights(_asked(**allowed), ["billing"], ["orders"], "User:alice", "broker:9092")


def test_what_is_granted_needs_no_command() -> None:
    table = _table()
    assert set(table.column("granted").to_pylist()) == {YES}
    assert table.column("grant").null_count == table.num_rows
    assert failing(table) == {}


def test_what_was_not_answered_is_unknown() -> None:
    table = rights(schemas.ASKED_RIGHTS.empty_table(), [], [])
    assert set(table.column("granted").to_pylist()) == {UNKNOWN}
    assert failing(table) == {}
    every = [row for row in table.to_pylist() if row["resource"] is None]
    assert {row["resource_type"] for row in every} == {"TOPIC", "GROUP"}
    names = {shlex.split(row["grant"])[-1] for row in every}
    assert names == {"--topic=*", "--group=*"}


def test_a_missing_right_names_the_commands_that_fail() -> None:
    missing = {f"READ_TOPIC_{GROUP_TOPIC}": False, "READ_GROUP_billing": False}
    table = _table(**missing)
    (row,) = (
        row for row in table.to_pylist() if row["granted"] == NO and row["resource"] == GROUP_TOPIC
    )
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
        assert row["grant"] is None
        assert row["needed_by"] == []
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
    assert words == [
        *("--bootstrap-server", "broker:9092", "--add", f"--allow-principal=User:{name}"),
        *("--operation", "Read", f"--group={name}"),
    ]


def test_the_cluster_has_no_name_in_a_grant() -> None:
    line = grant(Right("DESCRIBE_CONFIGS", "CLUSTER", CLUSTER), "User:alice")
    assert line.endswith("--operation DescribeConfigs --cluster")


def test_the_state_topic_comes_first() -> None:
    first, second = [right for right, _ in wanted(["g"], ["t"])][:2]
    assert first == Right("DESCRIBE", "TOPIC", STATE_TOPIC)
    assert second == Right("READ", "TOPIC", STATE_TOPIC)


def test_only_what_is_needed_is_offered() -> None:
    """Nobody who reads lag is offered the right to delete groups, or to read in their place."""
    nothing = {"_".join(map(str, right)): False for right, _ in wanted(["billing"], ["orders"])}
    lines = grants(_table(**nothing))
    ends = [line.partition("--operation ")[2] for line in lines]
    assert ends == [
        "Read --topic=__share_group_state",
        "Read --topic=__consumer_offsets",
        "Read --topic=orders",
        "DescribeConfigs --topic=orders",
        "DescribeConfigs --group=billing",
        "DescribeConfigs --cluster",
    ]
    consumers = [line.partition("--operation ")[2] for line in grants(_table(**nothing), True)]
    assert consumers == ["Read --topic=orders", "Read --group=billing"]
    assert grants(_table()) == []
    unknown = rights(schemas.ASKED_RIGHTS.empty_table(), [], [])
    assert grants(unknown) == []


def test_many_groups_are_counted() -> None:
    groups = [f"g{n}" for n in range(500)]
    rows = [
        {**right._asdict(), "allowed": right.operation != "READ" or right.resource_type != "GROUP"}
        for right, _ in wanted(groups, ["orders"])
    ]
    table = rights(pa.Table.from_pylist(rows, schema=schemas.ASKED_RIGHTS), groups, ["orders"])
    assert failing(table)["share consumers"] == ["READ on 500 groups"]
