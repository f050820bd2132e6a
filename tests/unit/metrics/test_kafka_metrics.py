"""Do the gauges say what Kafka's would, under its names?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.cli.demo import CAPTURE
from sharelag.errors import InputError
from sharelag.metrics.kafka_metrics import group_gauges, parse_mbean
from sharelag.sources.inputs import CaptureInput
from sharelag.workbench import investigate

COORDINATOR = "kafka.server:type=group-coordinator-metrics,"


def gauges(groups: pa.Table) -> dict[tuple[str, str | None], int]:
    rows: list[dict[str, Any]] = group_gauges(groups).to_pylist()
    assert {dict(row["tags"])["protocol"] for row in rows} == {"share"}
    return {(row["name"], dict(row["tags"]).get("state")): row["value"] for row in rows}


def group(name: str, state: str, partitions: list[int]) -> dict[str, Any]:
    topics = [{"topic_id": "A" * 22, "topic_name": "orders", "partitions": partitions}]
    return {"group_id": name, "state": state, "initialized_topics": topics}


def test_the_name_of_an_mbean() -> None:
    bean = parse_mbean(f"{COORDINATOR}name=group-count,protocol=share")
    assert (bean.name, bean.tags) == ("group-count", {"protocol": "share"})
    assert (bean.domain, bean.type) == ("kafka.server", "group-coordinator-metrics")
    hostile = parse_mbean(
        'kafka.server:type=SharePartitionMetrics,name=InFlightMessageCount,group="a,b=\\"c\\"\\n",partition=0'
    )
    assert hostile.tags == {"group": 'a,b="c"\n', "partition": "0"}


@pytest.mark.parametrize(
    "text", ["", "kafka.server", "kafka.server:name=x", "kafka.server:type=a,,b=c", ":type=a"]
)
def test_what_is_no_name_of_an_mbean(text: str) -> None:
    with pytest.raises(InputError, match="invalid MBean name"):
        parse_mbean(text)


def test_three_partitions_of_two_groups_are_six() -> None:
    table = pa.Table.from_pylist(
        [group("a", "Stable", [0, 1, 2]), group("b", "Empty", [0, 1, 2])], schema=schemas.GROUPS
    )
    found = gauges(table)
    assert found["num-partitions", None] == 6
    assert found["group-count", None] == 2
    assert (
        found["group-count", "stable"] + found["group-count", "empty"] == found["group-count", None]
    )
    assert gauges(table.slice(0, 0)) == dict.fromkeys(found, 0)


def test_the_gauges_of_a_recorded_cluster() -> None:
    evidence = investigate.gather(CaptureInput(CAPTURE), "local")
    found = gauges(evidence.groups)
    assert found["group-count", None] == found["group-count", "empty"] == 7
    assert found["num-partitions", None] == evidence.lag.num_rows == 32
