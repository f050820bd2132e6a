"""The chart of brokers counts share partitions by role, and says whose broker is not known."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import sharelag
from sharelag import charts, schemas
from sharelag.cli.demo import CAPTURE

ROLES = ("leader_id", "share_coordinator", "group_coordinator")


@pytest.fixture(scope="module")
def brokers() -> pa.Table:
    return sharelag.open(str(CAPTURE), engine="local").brokers().table


def test_each_role_counts_every_share_partition_once(brokers: pa.Table) -> None:
    made = charts.broker_load_records(brokers).to_pylist()
    for role in ROLES:
        counted = {row["broker_id"]: row["partitions"] for row in made if row["role"] == role}
        assert counted == Counter(brokers.column(role).to_pylist())
    figure = charts.broker_load_figure(charts.broker_load_records(brokers))
    assert [trace.name for trace in figure.data] == ["Leads", "Keeps state", "Coordinates group"]
    assert all(sum(trace.x) == len(brokers) for trace in figure.data)
    most = Counter(brokers.column("share_coordinator").to_pylist()).most_common(1)[0]
    assert figure.layout.meta["title"] == (
        f"Broker {most[0]} keeps the state of {most[1]} of {len(brokers)} share partitions"
    )


def test_a_broker_that_is_not_known_is_no_bar(brokers: pa.Table) -> None:
    place = brokers.schema.get_field_index("leader_id")
    leaders = pa.array([None, None, *brokers.column("leader_id").to_pylist()[2:]], pa.int32())
    made = charts.broker_load_records(brokers.set_column(place, "leader_id", leaders))
    figure = charts.broker_load_figure(made)
    assert sum(figure.data[0].x) == len(brokers) - 2
    assert "Not known: the leader of 2 share partitions." in figure.layout.meta["facts"]
    fewer = charts.broker_load_figure(made, most=1).layout.meta["facts"]
    assert "Not drawn: 2 brokers with higher ids." in fewer


def test_nothing_is_drawn_where_nobody_is_known() -> None:
    made = charts.broker_load_records(schemas.BROKERS.empty_table())
    assert "running cluster" in charts.broker_load_figure(made).layout.annotations[0].text
