"""How long share partitions took to load, by Kafka's own metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.oracles import Oracle

_MBEAN = "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs"


def shown(place: Path) -> dict[str, float]:
    """The figures that `sharelag metrics` shows of it."""
    done = sharelag("metrics", str(place), "-o", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    mine = [row for row in rows if row["metric"] == "PartitionLoadTimeMs"]
    assert {row["mbean"] for row in mine} == {_MBEAN.partition(",")[0]}
    return {row["attribute"]: row["figure"] for row in mine}


@pytest.mark.row("MET-07")
def test_two_loads_are_shown_with_their_mean_and_the_longest(tmp_path: Path) -> None:
    """KIP-932 calls them partition-load-time-avg and -max; Kafka 4.3.1 has a histogram."""
    with Oracle("LoadTimes") as kafka:
        told = kafka.ask({"loads": [10, 30]})
    assert told.pop("mbean") == _MBEAN
    dump = tmp_path / "broker.properties"
    lines = [f"{_MBEAN}:{name}={value}" for name, value in told.items()]
    dump.write_text("\n".join(["time=1", *lines, ""]))
    found = shown(dump)
    assert (found["Count"], found["Mean"], found["Max"]) == (2, 20, 30)


def test_a_live_broker_says_the_same_to_its_own_tool(broker: KafkaBroker, tmp_path: Path) -> None:
    ask = ("--one-time", "--report-format", "properties", "--object-name", _MBEAN)
    dump = tmp_path / "live.properties"
    dump.write_text(broker.jmx(*ask))
    theirs = dict(
        line.removeprefix(f"{_MBEAN}:").split("=")
        for line in dump.read_text().splitlines()
        if line.startswith(_MBEAN)
    )
    assert shown(dump) == {name: float(theirs[name]) for name in ("Count", "Mean", "Max")}
