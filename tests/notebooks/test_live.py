"""The notebooks agree with Kafka about a live cluster when only their parameters change."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode

from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import DescribedOffset, parse_describe
from tests.support.notebooks.shipped import complaints, papermill, texts
from tools.record.stage import Stage, steps

#: A broker, a Spark, and three notebooks, before the first test.
pytestmark = [pytest.mark.timeout(600), pytest.mark.exhaustive]
RUN: dict[str, dict[str, Any]] = {"01_lag_today": {}, "02_inside_a_window": {"group": "live"}}
RUN |= {"06_what_if": {"group": "live"}}
#: How many cells run. What is compared later is simulated from the scenario alone, as of any input.
CELLS = {"06_what_if": 3}


@pytest.fixture(scope="module")
def described() -> list[DescribedOffset]:
    """What Kafka's own command said while the notebooks ran; filled by `ran`."""
    return []


@pytest.fixture(scope="module")
def ran(
    described: list[DescribedOffset], tmp_path_factory: pytest.TempPathFactory, remote: str
) -> Iterator[dict[str, NotebookNode]]:
    """The notebooks after a run on a cluster where two members cannot keep up, two at a time."""
    folders = {name: tmp_path_factory.mktemp(name) for name in RUN}
    with (
        KafkaBroker() as broker,
        Stage(broker.bootstrap_servers, "live") as stage,
        ThreadPoolExecutor(2) as two,
    ):
        stage.open(3)
        stage.join(2, seconds=0.03, at_once=5)
        for _ in steps(12):
            stage.produce(40)
        stage.rest()  # they stay, and nothing changes any more
        described += parse_describe(broker.share_groups_describe(stage.group))
        started = {
            name: two.submit(_run, name, broker, folders[name], remote, CELLS.get(name))
            for name in folders
        }
        found = {name: run.result() for name, run in started.items()}
        assert parse_describe(broker.share_groups_describe(stage.group)) == described
        yield found


def _run(
    name: str, broker: KafkaBroker, folder: Path, remote: str, cells: int | None
) -> NotebookNode:
    where = broker.bootstrap_servers
    return papermill(name, folder, remote, cells=cells, where=where, **RUN[name])


@pytest.mark.parametrize("name", RUN)
def test_it_runs_on_a_live_cluster(ran: dict[str, NotebookNode], name: str) -> None:
    assert complaints(ran[name]) == []
    assert any("live-orders" in text for text in texts(ran[name]))


def test_lag_is_kafkas(ran: dict[str, NotebookNode], described: list[DescribedOffset]) -> None:
    (table,) = [
        text for text in texts(ran["01_lag_today"]) if text.startswith("Lag of 3 share partitions")
    ]
    lines = [line.split() for line in table.splitlines()]
    (heads,) = [line for line in lines if line[:1] == ["GROUP"]]
    at = [heads.index(name) for name in ("TOPIC", "PARTITION", "START-OFFSET", "LAG")]
    rows = [[line[n].replace(",", "") for n in at] for line in lines if line[:1] == ["live"]]
    assert rows == [
        [row["topic"], str(row["partition"]), str(row["start_offset"]), str(row["lag"])]
        for row in described
    ]
    assert sum(row["lag"] or 0 for row in described) > 100


def test_window_is_kafkas(ran: dict[str, NotebookNode], described: list[DescribedOffset]) -> None:
    code = "\n".join(texts(ran["02_inside_a_window"]))
    start = max(described, key=lambda row: row["lag"] or 0)["start_offset"]
    assert f"offsets=({start}, {start})" in code


def test_the_what_if_begins_with_this_group(ran: dict[str, NotebookNode]) -> None:
    said = texts(ran["06_what_if"])
    (assumed,) = [text for text in said if "of work per record" in text]
    assert re.search(r"^[\d.,]+ ms of work per record, exponentially distributed", assumed)
    assert "records of live-orders (" in assumed
    (cleared,) = [text for text in said if text.startswith("What clears the lag")]
    for name in ("simple", "all-to-all", "lag-aware-sticky"):
        assert re.search(rf"^{name} +not in ", cleared, re.MULTILINE)
    assert "; as it is (simple, 2 members): not drained within " in cleared
