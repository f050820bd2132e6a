"""Metrics of a real broker are the same by every way on which people get them.

``tests/data/metrics`` has what Kafka's JmxTool and the JMX exporter said of one broker of Kafka
4.3.1; `tools.record.broker_metrics` recorded it.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag.errors import InputError
from sharelag.inputs.measured import METRICS, metrics_of, of_mbean, read_metrics, row_of
from sharelag.metrics.measured import about_share_groups, letter_words, readings
from sharelag.schemas import BROKER_METRICS
from tests.support.command import ask, rows_of, sharelag
from tests.support.records import with_column

DATA = Path(__file__).resolve().parents[2] / "data" / "metrics"
AT = datetime(2026, 11, 23, 7, tzinfo=UTC)
ACKNOWLEDGED = "RecordAcknowledgementsPerSec"
#: What tells figures apart.
WHAT = ("mbean", "metric", "attribute", "group_id", "topic", "partition", "ack_type")


def figures(table: pa.Table) -> dict[tuple[Any, ...], float]:
    """Figures by what they measure, without those of a time that passes."""
    passing = re.compile("rate|latency", re.IGNORECASE)
    return {
        (*(row[name] for name in WHAT), *row["tags"]): row["figure"]
        for row in table.to_pylist()
        if not passing.search(f"{row['metric']} {row['attribute']}")
    }


def shown(folder: Path, text: str, *options: str) -> list[dict[str, Any]]:
    """What the command prints of a file with this text."""
    (folder / "metrics.txt").write_text(text)
    return ask("metrics", str(folder / "metrics.txt"), *options)


def test_every_format_of_kafkas_tool_says_the_same() -> None:
    said = [
        figures(about_share_groups(read_metrics([DATA / f"second.{form}"])))
        for form in ("tsv", "csv", "properties", "original")
    ]
    assert len(said[0]) > 50
    assert said[0] == said[1] == said[2]
    assert said[0].items() <= said[3].items()  # it was recorded whole


@pytest.mark.parametrize("rules", ["default", "lower"])
def test_the_exporter_says_the_same_as_kafkas_tool(rules: str) -> None:
    exported = figures(about_share_groups(read_metrics([DATA / f"{rules}.prom"])))
    assert exported == figures(about_share_groups(read_metrics([DATA / "second.tsv"])))


def test_the_rules_of_the_exporters_example_name_fewer_metrics_the_same() -> None:
    exported = figures(read_metrics([DATA / "example.prom"]))
    assert {key[1] for key in exported} >= {"InFlightMessageCount", "AcquisitionLockTimeoutPerSec"}
    assert exported.items() <= figures(read_metrics([DATA / "second.tsv"])).items()


def test_every_metric_that_is_known_was_seen_or_is_a_draft() -> None:
    seen = set(read_metrics([DATA / "second.original"]).column("metric").to_pylist())
    known = {metric for metrics in METRICS.values() for metric in metrics}
    assert known - seen == {
        *("share-acknowledgement-count", "share-acknowledgement-rate"),
        *("record-acknowledgement-count", "record-acknowledgement-rate"),
        *("rebalance-count", "rebalance-rate"),
        # of Kafka 4.4, which tests/kafka/test_broker_metrics.py asks for them
        *("DeadLetterQueueRecordCount", "DeadLetterQueueTotalProduceRequestsPerSec"),
        "DeadLetterQueueFailedProduceRequestsPerSec",
    }


@pytest.mark.row("MET-01")
def test_an_mbean_is_its_metric_and_its_tags(tmp_path: Path) -> None:
    text = "kafka.server:type=group-coordinator-metrics,name=group-count,protocol=share:Value"
    name = of_mbean(text)
    assert name is not None
    assert (name.metric, name.labels) == ("group-count", {"protocol": "share"})
    of_today = of_mbean("kafka.server:type=group-coordinator-metrics,protocol=share:group-count")
    assert of_today == name  # Kafka 4.3.1 has the metric as an attribute
    (row,) = shown(tmp_path, f"time=1\n{text}=3\n")
    assert (row["metric"], row["tags"], row["figure"]) == ("group-count", ["protocol=share"], 3.0)


@pytest.mark.row("MET-04")
def test_groups_by_state_add_up_to_all_share_groups() -> None:
    rows = ask("metrics", str(DATA / "second.properties"))
    (count,) = [row["figure"] for row in rows if row["metric"] == "group-count"]
    of_states = [row for row in rows if row["metric"] == "share-group-count"]
    states = {tag: row["figure"] for row in of_states for tag in row["tags"]}
    assert states == {"state=Dead": 0, "state=Empty": 1, "state=Stable": 0}
    assert sum(states.values()) == count == 1


@pytest.mark.row("MET-05")
def test_acknowledged_offsets_of_the_draft_are_read(tmp_path: Path) -> None:
    """No broker of Kafka 4.3.1 has them, which counts by type; the walk accepts 20 offsets."""
    bean = "kafka.server:type=group-coordinator-metrics,name=share-acknowledgement"
    text = f"{bean}-count,protocol=share:Value=20\n{bean}-rate,protocol=share:Value=2.5\n"
    rows = shown(tmp_path, f"time=1\n{text}", "--all")
    names = ("metric", "tags", "figure", "legacy")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("share-acknowledgement-count", ["protocol=share"], 20.0, False),
        ("share-acknowledgement-rate", ["protocol=share"], 2.5, False),
    ]
    assert {row["mbean"] for row in rows} == {"kafka.server:type=group-coordinator-metrics"}


@pytest.mark.row("MET-08")
def test_a_name_of_the_draft_is_read_as_its_successor(tmp_path: Path) -> None:
    bean = "kafka.server:type=group-coordinator-metrics"
    draft = f"{bean},name=offset-commit-rate,protocol=share:Value=2\n"
    rows = shown(tmp_path, f"time=1\n{draft}{bean}:offset-commit-rate=5\n", "--all")
    assert [(row["metric"], row["legacy"], row["figure"]) for row in rows] == [
        ("share-acknowledgement-rate", True, 2.0),
        ("offset-commit-rate", False, 5.0),  # of consumer groups, as Kafka has it today
    ]


@pytest.mark.row("CLT-09")
def test_metrics_of_clients_keep_their_names(tmp_path: Path) -> None:
    text = 'org_apache_kafka_strange{client_instance_id="xyz",node="2"} 4.5\n'
    (row,) = shown(tmp_path, text, "--all")
    assert (row["metric"], row["mbean"]) == ("org_apache_kafka_strange", None)
    assert (row["client_instance_id"], row["tags"], row["figure"]) == ("xyz", ["node=2"], 4.5)


def test_names_with_any_characters_are_read_as_they_are() -> None:
    bean = 'kafka.server:type=SharePartitionMetrics,name=InFlightMessageCount,group="a,b\\"=:c"'
    row = row_of(of_mbean(f"{bean},topic=t,partition=0:Value"))  # type: ignore[arg-type]
    assert (row["group_id"], row["topic"], row["partition"]) == ('a,b"=:c', "t", 0)


def test_two_readings_of_a_broker_give_rates() -> None:
    table = read_metrics([f"1={DATA / 'first.properties'}", f"1={DATA / 'second.csv'}"])
    rows = readings(table, ACKNOWLEDGED, "Count", ["ack_type"]).to_pylist()
    names = ("first.properties", "second.csv")
    first, second = (metrics_of((DATA / name).read_text(), name, AT) for name in names)
    seconds = (second["as_of"][0].as_py() - first["as_of"][0].as_py()).total_seconds()
    assert {row["ack_type"] for row in rows} == {"accept", "release", "reject", "renew"}
    for row in rows:
        is_count = pc.field("attribute") == "Count"
        before = first.filter((pc.field("ack_type") == row["ack_type"]) & is_count)
        more = row["figure"] - before["figure"][0].as_py()
        assert row["increase"] == more
        assert row["rate"] == pytest.approx(more / seconds)
    accepted = {row["ack_type"]: row["increase"] for row in rows}
    assert accepted["accept"] > 0


def test_a_count_that_began_again_has_no_rate() -> None:
    table = read_metrics([f"1={DATA / 'first.properties'}", f"1={DATA / 'second.csv'}"])
    later = pc.if_else(pc.equal(table["read_from"], str(DATA / "second.csv")), 0.0, table["figure"])
    rows = readings(with_column(table, "figure", later), ACKNOWLEDGED, "Count", ["ack_type"])
    rates = dict(zip(rows["ack_type"].to_pylist(), rows["rate"].to_pylist(), strict=True))
    assert rates == {"accept": None, "release": None, "reject": None, "renew": 0.0}


def test_readings_of_places_without_a_broker_are_of_different_ones() -> None:
    table = read_metrics([DATA / "first.properties", DATA / "second.csv"])
    rows = readings(table, ACKNOWLEDGED, "Count", ["ack_type"])
    assert rows.num_rows == 8
    assert rows["rate"].null_count == 8


def test_a_file_of_prometheus_is_as_old_as_the_file(tmp_path: Path) -> None:
    file = tmp_path / "m.prom"
    file.write_text('up{instance="b1:7071"} 1\ndown 2 1763881200000\nnothing NaN\n')
    os.utime(file, (AT.timestamp(),) * 2)
    rows = read_metrics([file]).to_pylist()
    assert [row["as_of"] for row in rows] == [AT, datetime(2025, 11, 23, 7, tzinfo=UTC), AT]
    assert [row["broker"] for row in rows] == ["b1:7071", None, None]
    assert [row["figure"] for row in rows] == [1.0, 2.0, None]


@contextmanager
def served(body: bytes, status: int = 200, location: str = "") -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()


def test_an_address_is_read_and_its_query_shown_nowhere() -> None:
    with served((DATA / "lower.prom").read_bytes()) as address:
        table = read_metrics([f"b1={address}?token=hidden"])
    assert set(table.column("read_from").to_pylist()) == {address}
    assert set(table.column("broker").to_pylist()) == {"b1"}
    assert figures(table) == figures(read_metrics([DATA / "lower.prom"]))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a { b", "no metrics that can be read"),
        (b"", "has no metrics"),
        (b'"time","a"\n1,2,3\n', "print --report-format properties"),
        (b"\xff\xff", "not text"),
        (b"time=99999999999999999999\na:type=b:c=1\n", "no metrics that can be read"),
    ],
)
def test_what_is_no_metrics_is_a_sentence(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "m.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=why):
        read_metrics([file])


def test_addresses_that_lead_elsewhere_are_not_followed() -> None:
    with (
        served(b"up 1\n") as other,
        served(b"", 302, other) as address,
        pytest.raises(InputError, match="check the address"),
    ):
        read_metrics([address])
    with pytest.raises(InputError, match="remove the password") as told:
        read_metrics(["http://me:secret@127.0.0.1:1/metrics"])
    assert "secret" not in str(told.value)


def test_addresses_of_other_kinds_are_refused_without_their_passwords() -> None:
    with pytest.raises(InputError, match=r"^ftp:// addresses are not read: give a file") as error:
        read_metrics(["1=ftp://u:secret@x/y"])
    assert "secret" not in str(error.value)


def test_nothing_read_is_a_table_without_rows() -> None:
    assert read_metrics([]).schema == BROKER_METRICS


@pytest.mark.row("ACK-10")
def test_rejected_and_released_records_are_two_series() -> None:
    done = sharelag("metrics", f"1={DATA / 'second.csv'}", "-o", "json")
    rows = [row for row in rows_of(done) if row["attribute"] == "Count"]
    counts = {row["ack_type"]: row["figure"] for row in rows if row["metric"] == ACKNOWLEDGED}
    assert {"accept", "release", "reject"} <= set(counts)
    for kind in ("release", "reject"):
        assert f" {counts[kind]:,.0f} {kind}" in done.stderr
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    assert "A record that is rejected is given up for good" in page
    assert "one that is released is delivered again" in page


def test_letters_are_summed_up_by_group(tmp_path: Path) -> None:
    def place(broker: int, at: int, **counts: tuple[int, ...]) -> str:
        """A reading of a broker: letters written, requests and failed ones of each group."""
        names = ("RecordCount", "TotalProduceRequestsPerSec", "FailedProduceRequestsPerSec")
        bean = "kafka.server:type=ShareGroupMetrics,name=DeadLetterQueue"
        lines = [
            f"{bean}{name},group={group}:Count={count}"
            for group, found in counts.items()
            for name, count in zip(names, found, strict=False)
        ]
        file = tmp_path / f"{broker}-{at}"
        file.write_text("\n".join([f"time={at}", *lines, ""]))
        return f"{broker}={file}"

    both = [place(1, 1000, g=(5, 2)), place(1, 2000, g=(9, 3, 1), h=(1, 1))]
    others = [place(2, 1000, g=(1, 1)), place(2, 2000, g=(1, 1))]
    table = read_metrics([*both, *others])
    of_g = "dead letters of g, by the brokers that were read: "
    of_h = "dead letters of h, by the brokers that were read: "
    assert letter_words(table) == [
        f"{of_g}written 10 (+4), requests 4 (+1), failed requests at least 1",
        f"{of_h}written 1, requests 1, failed requests 0",
    ]
    assert letter_words(table, {"h"}) == letter_words(table)[1:]
    assert letter_words(read_metrics([DATA / "second.csv"])) == []
    many = {f"g{number:02}": (number,) for number in range(40)}
    *told, rest = letter_words(read_metrics([place(1, 1000, **many)]))
    assert [words.split()[3] for words in told] == [f"g{number:02}," for number in range(10)]
    assert rest == "dead letters of 30 more groups: see the counts of -o json"


_NONE = "not exported (or none yet)"


@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        ([{"g": "w=12"}], f"written 12, requests {_NONE}, failed requests {_NONE}"),
        ([{"g": "w=7 r=3"}], f"written 7, requests 3, failed requests {_NONE}"),
        ([{"g": "r=3 f=3"}], f"written {_NONE}, requests 3, failed requests 3"),
        # Another group shows that the exporter of this broker has the count.
        ([{"g": "w=7 r=3", "h": "f=1"}], "written 7, requests 3, failed requests 0"),
        ([{"g": "w=7", "h": "r=2"}], f"written 7, requests 0, failed requests {_NONE}"),
        # What one broker exports says nothing of another.
        ([{"g": "w=7 r=3"}, {"h": "w=1 r=1 f=1"}],
         f"written 7, requests 3, failed requests {_NONE}"),
        ([{"g": "w=7 r=3"}, {"g": "w=1 r=1 f=1"}],
         "written 8, requests 4, failed requests at least 1"),
    ],
)  # fmt: skip
def test_unexported_is_not_zero(brokers: list[dict[str, str]], said: str, tmp_path: Path) -> None:
    names = {"w": "recordcount", "r": "totalproducerequests", "f": "failedproducerequests"}
    places = []
    for number, groups in enumerate(brokers):
        file = tmp_path / f"{number}.prom"
        file.write_text(
            "".join(
                f"kafka_server_sharegroupmetrics_deadletterqueue{names[one[0]]}_total"
                f'{{group="{group}"}} {one[2:]}\n'
                for group, counts in groups.items()
                for one in counts.split()
            )
        )
        places.append(f"{number}={file}")
    (found,) = letter_words(read_metrics(places), {"g"})
    assert found == f"dead letters of g, by the brokers that were read: {said}"


def test_the_command_says_what_members_acknowledged() -> None:
    first, second = (f"1={DATA / name}" for name in ("first.properties", "second.csv"))
    done = sharelag("metrics", first, second, "--group", "billing", "-o", "json")
    rows = rows_of(done)
    assert rows
    assert {row["group_id"] for row in rows} == {"billing"}
    assert "since the start of broker 1, of all share groups: " in done.stderr
    assert " accept (+" in done.stderr
