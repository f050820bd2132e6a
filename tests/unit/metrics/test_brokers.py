"""Brokers around share partitions: by hand, where anything may be unknown."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import explain, schemas
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.brokers import Lead, brokers, coordinators, leads
from sharelag.metrics.imbalance import imbalance_arrow
from sharelag.metrics.lag import diff_arrow
from sharelag.replay import replay_arrow
from sharelag.tables.gaps import of_leaderless
from sharelag.wire import GROUP_TOPIC, SHARE_SNAPSHOT, STATE_TOPIC, encode_record
from sharelag.wire.placement import abs_hash
from sharelag.workbench.verdicts import summarize_groups
from tests.support.readings import open_once
from tests.support.records import assert_fields, decode, row

NOW = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)
#: A recording of a group whose orders lag, and whose returns do not.
CAPTURE = folder_of("unassigned")
RACKS = {1: "east", 2: "west", 3: "<b>\x1b[31m"}


def leader_row(topic: str, topic_id: str, partition: int, leader: int | None) -> dict[str, Any]:
    replicas = [1, 2] if leader is None else [leader, 1 + leader % 3]
    place = {"topic": topic, "topic_id": topic_id, "partition": partition, "as_of": NOW}
    return place | {"leader_id": leader, "replicas": replicas, "in_sync_replicas": replicas[:1]}


def nodes() -> pa.Table:
    rows = [{"broker_id": n, "host": "h", "port": 9090 + n, "rack": RACKS[n]} for n in RACKS]
    rows = [row | {"as_of": NOW} for row in rows]
    return pa.Table.from_pylist(rows, schema=schemas.NODES)


def lag_rows(lags: list[int | None], group: str = "g") -> pa.Table:
    place = {"group_id": group, "topic": "t", "topic_id": "T"}
    rows = [place | {"partition": p, "lag": lag} for p, lag in enumerate(lags)]
    return pa.Table.from_pylist(rows, schema=schemas.LAG)


def around(lag: pa.Table, leaders: list[dict[str, Any]], nodes: pa.Table) -> pa.Table:
    led = pa.Table.from_pylist(leaders, schema=schemas.LEADERS)
    return brokers(lag, schemas.OFFSETS.empty_table(), led, nodes)


def found(lags: list[int | None], leaders: list[int | None]) -> pa.Table:
    rows = [leader_row("t", "T", p, leader) for p, leader in enumerate(leaders)]
    return around(lag_rows(lags), rows, nodes())


def test_what_is_not_known_is_null() -> None:
    (row,) = around(lag_rows([5]), [], schemas.NODES.empty_table()).to_pylist()
    known = {name for name, value in row.items() if value is not None}
    assert known == {"group_id", "topic", "topic_id", "partition", "lag"}


def test_a_partition_without_a_leader_still_has_replicas() -> None:
    first, second, third = found([1, 2, 3], [2, None, 9]).to_pylist()
    assert_fields(first, leader_id=2, leader_rack="west", racks=["west", RACKS[3]])
    assert_fields(second, leader_id=None, leader_rack=None, replicas=[1, 2])
    assert_fields(third, leader_id=9, leader_rack=None, racks=[None, "east"])


def test_coordinators_lead_the_partitions_that_javas_hash_chooses() -> None:
    groups = ["billing", "audit", "gr\N{CLOUD}", "\N{PILE OF POO}", "a:0:'x'"]
    rows = [leader_row(GROUP_TOPIC, "G", p, 1 + p % 3) for p in range(7)]
    rows += [leader_row(STATE_TOPIC, "S", p, 1 + (p + 1) % 3) for p in range(5)]
    led = pa.Table.from_pylist(rows, schema=schemas.LEADERS)
    said = coordinators(pa.array(groups), led, nodes()).to_pylist()
    by_hash = [1 + abs_hash(group) % 7 % 3 for group in groups]
    assert said == [f"h:{9090 + number} ({number})" for number in by_hash]
    for group in groups:
        (row,) = around(lag_rows([1], group), rows, nodes()).to_pylist()
        assert row["state_partition"] == abs_hash(f"{group}:T:0") % 5
        assert row["share_coordinator"] == 1 + (row["state_partition"] + 1) % 3
        assert row["group_coordinator"] == by_hash[groups.index(group)]


@pytest.mark.parametrize(
    ("lags", "leaders", "words"),
    [
        ([0, 40, 20, 0], [1, 3, 3, 2], "all of it led by broker 3"),
        ([1, 999, 1000], [2, 1, 1], "over 99 % of it led by broker 1 (rack east)"),
        ([6, 50, 44], [2, 1, 1], None),  # less than nearly all
        ([0, 60], [1, 3], "all of it led by broker 3"),  # in one partition, too
        ([40, 20], [3, 3], None),  # so has a group whose partitions one broker leads
        ([0, 40, 20, 1], [1, 3, 3, None], None),  # who leads the rest is not known
        ([0, 40, 20, None], [1, 3, 3, None], "all of it led by broker 3"),  # as far as it is known
        ([0, 0, None], [1, 3, 3], None),
    ],
)
def test_one_broker_leads_the_lag(
    lags: list[int | None], leaders: list[int | None], words: str | None
) -> None:
    said = [lead.words() for lead in leads(found(lags, leaders)).values()]
    assert len(said) == (words is not None)
    assert all(one.startswith(words or "") for one in said)


@pytest.mark.parametrize(
    ("leaders", "words"),
    [
        ([1, 2], ()),
        ([None, 2], ("where t:0 ends: it has no leader; start a broker with a replica (1, 2)",)),
        (
            [None, None],
            ("where t:0, t:1 end: they have no leader; start a broker with a replica (1, 2)",),
        ),
    ],
)
def test_partitions_without_a_leader(leaders: list[int | None], words: tuple[str, ...]) -> None:
    assert of_leaderless(found([1] * len(leaders), leaders)) == words


def test_the_demo_says_which_broker_leads_nearly_all_of_a_groups_lag() -> None:
    bench = open_once("demo")
    groups = summarize_groups(bench.evidence(), explain(bench.evidence()))
    said = {one.group: one.state for one in groups}
    assert "over 99 % of it led by broker 3" in said["fulfilment"]
    assert "all of it led by broker 1" in said["invoicing"]
    rows = bench.brokers().table.to_pylist()
    for group in said:
        lags = Counter[int]()
        for one in rows:
            if one["group_id"] == group:
                lags[one["leader_id"]] += one["lag"] or 0
        (most, lag), *_ = lags.most_common(1)
        is_said = len(lags) > 1 and lag > 0 and lag >= 0.95 * lags.total()
        assert (f"led by broker {most}" in said[group]) == is_said


def led_by_one(folder: Path) -> Path:
    """Return a recording as if broker 3 led all partitions of orders, and broker 1 the others."""
    copy = folder / "capture"
    copytree(CAPTURE, copy)
    lag = open_once("unassigned").lag().table.to_pylist()
    places = {(row["topic"], row["topic_id"], row["partition"]) for row in lag}
    rows = [leader_row(*place, 3 if place[0].endswith("orders") else 1) for place in sorted(places)]
    table = pa.Table.from_pylist(rows, schema=schemas.LEADERS)
    pq.write_table(table, copy / "leaders.parquet")
    pq.write_table(nodes(), copy / "nodes.parquet")
    return copy


def test_explain_says_which_broker_leads_the_lag(tmp_path: Path) -> None:
    bench = sharelag.open(str(led_by_one(tmp_path)), engine="local")
    said = leads(bench.reading.table("brokers"))
    assert said == {"unassigned": Lead(3, RACKS[3], 1.0)}
    evidence = bench.evidence()
    causes = explain(evidence)
    states = {one.group: one.state for one in summarize_groups(evidence, causes)}
    for group, state in states.items():
        assert ("all of it led by broker 3 (rack <b>\\x1b[31m)" in state) == (group in said)
    shown = {
        (row["group_id"], one["value"])
        for row in causes.to_pylist()
        for one in row["evidence"]
        if one["name"] == "led_by"
    }
    assert shown == {
        (group, f"broker 3 (rack {RACKS[3]}): all of the group's lag")
        for group in said.keys() & {row["group_id"] for row in causes.to_pylist()}
    }
    without = replace(evidence, brokers=schemas.BROKERS.empty_table())
    assert explain(without).column("cause").equals(causes.column("cause"))
    assert "led by" not in " ".join(one.state for one in summarize_groups(without, causes))


def test_the_load_of_a_broker_is_that_of_what_it_leads() -> None:
    lags: list[int | None] = [10, 20, 30, None, 5]
    led = found(lags, [1, 1, 2, 2, None])
    rows = imbalance_arrow(lag_rows(lags), brokers=led, by="broker").to_pylist()
    figures = {row["measure"]: (row["items"], row["total"], row["max"]) for row in rows}
    # What no broker leads is no broker's; an unknown lag is not zero, and leaves the other's.
    assert figures == {"lag": (2, 60, 30), "partitions": (2, 4, 2)}
    assert imbalance_arrow(lag_rows(lags), by="broker").num_rows == 0
    nobody = found(lags, [None] * 5)
    assert imbalance_arrow(lag_rows(lags), brokers=nobody, by="broker").num_rows == 0


def test_what_no_known_broker_leads_is_said_beside_the_loads_of_brokers(tmp_path: Path) -> None:
    path = copytree(folder_of("demo"), tmp_path / "capture") / "leaders.parquet"
    said = "the leader of 1 share partition: that needs DESCRIBE on the topic"
    for lacking in (False, True):
        bench = sharelag.open(str(path.parent), engine="local")
        assert (said in bench.imbalance().unknown) is lacking
        first = bench.brokers().table.to_pylist()[0]
        names = ("topic_id", "partition")
        leaders = pq.read_table(path)
        is_other = pc.or_(*(pc.not_equal(leaders.column(name), first[name]) for name in names))
        pq.write_table(leaders.filter(is_other), path)


def test_another_leader_between_two_moments_is_told() -> None:
    (window,) = replay_arrow(decode([encode_record(SHARE_SNAPSHOT, row(10, []))])).to_pylist()
    rows = (window | {"leader_epoch": epoch} for epoch in (5, 6))
    was, now = (pa.Table.from_pylist([one], schemas.WINDOWS) for one in rows)
    (found_row,) = diff_arrow(was, now).to_pylist()
    assert_fields(found_row, leader_epoch_before=5, leader_epoch_after=6)
    assert found_row["change"] == "same"  # nothing moved by it


@pytest.mark.parametrize(("snapshot", "change"), [(0, "reset"), (1, "reset"), (2, "same")])
def test_a_state_that_was_deleted_in_between_is_another_one(snapshot: int, change: str) -> None:
    """Its group may begin with the same epoch again; a later snapshot alone is no other state."""
    (window,) = replay_arrow(decode([encode_record(SHARE_SNAPSHOT, row(10, []))])).to_pylist()
    made = window["create_timestamp"] + timedelta(seconds=1)
    then = window | {"snapshot_epoch": 1}
    later = window | {"snapshot_epoch": snapshot, "create_timestamp": made}
    was, now = (pa.Table.from_pylist([one], schemas.WINDOWS) for one in (then, later))
    (found_row,) = diff_arrow(was, now).to_pylist()
    assert_fields(found_row, change=change, finished=None if change == "reset" else 0)
