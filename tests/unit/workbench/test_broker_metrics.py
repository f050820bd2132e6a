"""Metrics of brokers on the paths that people use: the same columns, or why there are none."""

import json
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest

import sharelag as package
from sharelag.errors import InputError
from sharelag.metrics.measured import COLUMNS
from tests.support.command import refused, rows_of, sharelag

DATA = Path(__file__).resolve().parents[2] / "data" / "metrics"
BEAN = "kafka.server:type=SharePartitionMetrics"


@pytest.fixture(scope="module")
def of_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Metrics of the moment of the demo: a window of 3 offsets, and 7 locks that expired."""
    evidence = package.open(engine="local").evidence()
    row = next(row for row in evidence.lag.to_pylist() if (row["unread"] or 0) >= 3)
    place = f"group={row['group_id']},topic={row['topic']},partition={row['partition']}"
    span = row["window_end_offset"] - row["effective_start_offset"] + 3
    file = tmp_path_factory.mktemp("metrics") / "1.txt"
    at = evidence.as_of - timedelta(seconds=2)
    file.write_text(
        f"time={int(at.timestamp() * 1000)}\n"
        "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs:Count=1\n"
        "kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType=Accept:Count=9\n"
        f"{BEAN},name=InFlightMessageCount,{place}:Value={span}\n"
        f"{BEAN},name=AcquisitionLockTimeoutPerSec,{place}:Count=7\n"
    )
    return file


def test_commands_and_workbench_say_the_same(of_demo: Path) -> None:
    bench = package.open(engine="local", broker_metrics=of_demo)
    for command, result in (("lag", bench.lag()), ("progress", bench.progress())):
        given = ("--capture", "demo", "--broker-metrics", str(of_demo), "-o", "json")
        printed = [json.loads(line) for line in sharelag(command, *given).stdout.splitlines()]
        rows = result.table.select(list(COLUMNS)).to_pylist()
        assert [{name: row[name] for name in COLUMNS} for row in printed] == rows
        told = [row for row in rows if row["in_flight_offsets"] is not None]
        assert [row["lock_timeouts"] for row in told] == [7]
        assert told[0]["acquired_low"] is not None
    for said in (bench.progress().to_text(), bench.explain("billing").to_text()):
        assert "of all share groups: 9 accept" in said


def test_a_relative_path_is_of_its_opening(of_demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(of_demo.parent)
    benches = [
        package.open(engine="local", broker_metrics=place)
        for place in (of_demo.name, f"1={of_demo.name}")
    ]
    monkeypatch.chdir("/")
    for bench in benches:
        assert bench.lag().table.column("in_flight_offsets").null_count < bench.lag().table.num_rows


def test_causes_have_what_brokers_measured(of_demo: Path) -> None:
    table = package.open(engine="local", broker_metrics=of_demo).explain("billing").table
    names = pc.struct_field(pc.list_flatten(table.column("evidence")), "name").to_pylist()
    without = package.open(engine="local").explain("billing").table
    before = pc.struct_field(pc.list_flatten(without.column("evidence")), "name").to_pylist()
    assert "measured" not in before
    assert set(names) - set(before) <= {"measured"}


def test_metrics_of_another_time_are_unknown_and_said_so() -> None:
    given = ("--capture", "demo", "--broker-metrics", str(DATA / "first.properties"))
    done = sharelag("lag", *given, "-o", "json")
    rows = rows_of(done)
    assert {row[name] for row in rows for name in COLUMNS} == {None}
    assert "not known: what brokers measured then" in done.stderr
    result = package.open(engine="local", broker_metrics=given[-1]).progress()
    assert "what brokers measured then" in " ".join(result.unknown)


@pytest.mark.parametrize(
    ("loads", "twice", "named", "why"),
    [
        (8, False, True, ["loaded share partitions more than once"]),
        (1, True, True, ["several brokers have metrics"]),
        (1, True, False, ["name the broker of each place"]),
    ],
)
def test_why_gauges_are_unknown_is_the_reason_that_holds(
    of_demo: Path, tmp_path: Path, loads: int, twice: bool, named: bool, why: list[str]
) -> None:
    """Three brokers; the gauge of one is of an earlier load, or two have it."""
    text = of_demo.read_text().replace("LoadTimeMs:Count=1", f"LoadTimeMs:Count={loads}")
    of_none = "\n".join(line for line in text.splitlines() if "SharePartitionMetrics" not in line)
    for number, content in enumerate((text, text if twice else of_none, of_none), 1):
        (tmp_path / f"m{number}.txt").write_text(content)
    places = [f"{'' if not named else f'{n}='}{tmp_path / f'm{n}.txt'}" for n in (1, 2, 3)]
    given = [argument for place in places for argument in ("--broker-metrics", place)]
    done = sharelag("lag", "--capture", "demo", *given)
    (said,) = (line for line in done.stderr.splitlines() if "not known: " in line)
    assert why[0] in said
    others = {"loaded share", "several brokers", "name the broker"} - {" ".join(why[0].split()[:2])}
    assert not [other for other in others if other in said and other not in why[0]]


def test_without_metrics_there_are_no_columns_of_them() -> None:
    bench = package.open(engine="local")
    assert not set(COLUMNS) & set(bench.lag().table.column_names)
    with pytest.raises(InputError, match="broker_metrics=PLACE"):
        bench.broker_metrics()


def test_the_figures_of_a_group_are_a_result() -> None:
    bench = package.open(engine="local", broker_metrics=[DATA / "first.properties"])
    result = bench.broker_metrics("billing")
    assert set(result.table.column("group_id").to_pylist()) == {"billing"}
    assert "InFlightMessageCount" in result.to_text()
    assert len(bench.broker_metrics(everything=True).table) > len(bench.broker_metrics().table)


def test_what_does_not_go_together_is_wrong_usage() -> None:
    said = refused("lag", "--capture", "demo", "--by", "group", "--broker-metrics", "m.txt", code=2)
    assert "--broker-metrics needs --by partition" in said
