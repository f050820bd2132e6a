"""The documentation of what Kafka does not have, and of which names are ours."""

import re
from pathlib import Path

import pytest

from sharelag.engine.engines import gather
from sharelag.inputs import CaptureInput
from sharelag.metrics.causes import CAUSES
from sharelag.model import DeliveryState
from sharelag.monitoring.exports.metrics import Gathered, registry_of
from sharelag.reports import notebooks
from sharelag.whatif.consumer_group import RUNS
from sharelag.whatif.simulation.tables import SUMMARY
from tests.support.chapters import CAPTURE

DOCS = Path(__file__).parents[2] / "docs"


def result() -> dict[str, str]:
    """What stands beside each line of the list."""
    rows = re.findall(
        r"^\| ([^|`]+) \| ([^|]+) \|$", (DOCS / "future.md").read_text(), re.MULTILINE
    )
    return {name: words for name, words in rows if name != "Left to the future"}


@pytest.mark.row("FUT-09")
def test_the_list_of_the_kip_is_whole() -> None:
    """Five items, of the accepted text."""
    text = " ".join((DOCS / "future.md").read_text().split())
    assert "the KIP as it was accepted, not of a draft before" in text
    assert list(result()) == [
        "Dead-letter queue, in Kafka since 4.4",
        "Ordering by key",
        "Log cleaning that knows start offsets",
        "A record TTL",
        "Acknowledgements in a transaction",
    ]


@pytest.mark.row("FUT-05")
def test_nothing_promises_exactly_once() -> None:
    assert "nothing here promises exactly once" in result()["Acknowledgements in a transaction"]
    others = [
        path for path in (*DOCS.glob("*.md"), DOCS.parent / "README.md") if path.name != "future.md"
    ]
    assert not [path.name for path in others if "exactly once" in path.read_text().lower()]


def test_what_it_names_is_there() -> None:
    words = result()
    assert "poison_records" in {cause.name for cause in CAUSES}
    assert DeliveryState(3).name.title() == "Archiving"
    assert {"archived", "redeliveries"} <= set(SUMMARY.names)
    assert "out_of_order_share" in RUNS.names
    named = set(re.findall(r"`(\w+)`", " ".join(words.values())))
    assert named == {
        "explain",
        "poison_records",
        "archived",
        "Archiving",
        "out_of_order_share",
        "redeliveries",
        "dlq",
    }
    (option,) = re.findall(r"-p (\w+)", words["A record TTL"])
    assert option in notebooks.read_parameters(notebooks.notebook("capacity"))
    cells = notebooks.notebook("capacity").read_text()
    assert {"cells.reclaimable(case)", f"cells.archived(case, {option})"} <= set(
        re.findall(r"cells\.\w+\([^)]*\)", cells)
    )


@pytest.mark.row("MET-09")
def test_no_metric_of_ours_looks_like_one_of_kafkas_clients() -> None:
    """What is derived here has a separate prefix, and the documentation says so."""
    now = Gathered(gather(CaptureInput(CAPTURE), "local"), 0.5, 1_000.0)
    names = [family.name for family in registry_of(lambda: now).collect()]
    assert len(names) >= 15
    assert {name[: len("kafka_share_group_")] for name in names} == {"kafka_share_group_"}
    text = " ".join((DOCS / "exports.md").read_text().split())
    assert "all begin with `kafka_share_group_`, as none of Kafka's own do" in text
    assert (
        "What share consumers measure of themselves (`metrics()`, telemetry) is not read here."
        in text
    )
