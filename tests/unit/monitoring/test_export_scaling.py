"""What autoscalers are answered, and files and tables that exports write."""

import json
import re
import shutil
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from prometheus_client.parser import text_string_to_metric_families as text_families

from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.metrics.lag import lag_arrow
from sharelag.monitoring import lake as current
from sharelag.monitoring.exports import Gathered, application, scaling, write_textfile
from sharelag.monitoring.lake import CurrentTables, append_run, write_run
from sharelag.replay import replay_arrow
from sharelag.wire import SHARE_SNAPSHOT, decode_arrow, encode_record
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag
from tests.support.records import offsets, raw, row
from tests.support.scrapes import EXAMPLES, SCENARIOS, Samples, ask, gathered, labels, samples
from tests.support.written_input import Write, WrittenInput

NOT_STARTED = Path(__file__).parents[2] / "data" / "not-started-beside-finished"


def metrics(now: Gathered) -> Samples:
    return samples(ask(application(lambda: now), "/metrics")[2].decode(), text_families)


# ---- scaling
@pytest.mark.row("ASG-10")
def test_a_lag_of_700_asks_for_7_consumers_of_100_each() -> None:
    now = gathered(WrittenInput([Write(600, 6500)]))
    app = application(lambda: now)
    status, headers, body = ask(app, "/keda/billing", query="target=100")
    result = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert (result["lag"], result["lag_excluding_stuck"], result["consumers"]) == (700, 700, 7)
    assert result["age_seconds"] == pytest.approx(700)
    assert json.loads(ask(app, "/keda/billing", query="target=99")[2])["consumers"] == 8
    for wrong in ("0", "-1", "x", "1e3", "9" * 5000):
        assert ask(app, "/keda/billing", query=f"target={wrong}")[0] == 400
    assert ask(app, "/keda/nobody")[0] == 404


def scaled(name: str, patience: timedelta | None = None) -> dict[str, Any]:
    evidence = engines.gather(CaptureInput(SCENARIOS / name), "local")
    (result,) = scaling(evidence, patience).values()
    return result


@pytest.mark.parametrize(
    ("name", "most"), [("poison", 1), ("window_full", 1), ("head_of_line", 1), ("open_transaction", None)]
)  # fmt: skip
def test_what_more_consumers_would_not_finish_is_left_out(name: str, most: int | None) -> None:
    """Of the recordings, what is stuck is what they were made to show."""
    result = scaled(name, timedelta(seconds=2.5))
    assert 0 <= result["lag_excluding_stuck"] < result["lag"]
    assert most is None or result["lag_excluding_stuck"] <= most


def test_a_lag_that_is_not_stuck_counts_in_full() -> None:
    result = scaled("no_members")
    assert (result["lag"], result["lag_excluding_stuck"], result["members"]) == (240, 240, 0)
    # Its share.auto.offset.reset is earliest, so that all that is there waits.
    result = scaled("not_started")
    assert (result["lag"], result["lag_excluding_stuck"], result["unknown_lags"]) == (192, 192, 4)
    assert result["age_seconds"] is None


#: A share partition that was never fetched, and one that is finished, of 7,200 records each.
NEW, DONE = Write(600, -1), Write(600, 7200, partition=1)
RESET = "share.auto.offset.reset"


@pytest.mark.parametrize(
    ("group", "lag"),
    [
        (WrittenInput([NEW, DONE], partitions_of_topic=2), None),
        (WrittenInput([NEW]), None),
        (WrittenInput([NEW, DONE], 1, 2, group_settings={RESET: "latest"}), None),
        (WrittenInput([NEW, DONE], 1, 2, group_settings={RESET: "by_duration:PT1H"}), None),
        (WrittenInput([NEW, DONE], 1, 2, group_settings={RESET: "earliest"}), 7200),
        (WrittenInput([NEW], 1, 1, group_settings={RESET: "earliest"}), 7200),
        (WrittenInput([NEW], 1, 1, frozenset({0}), group_settings={RESET: "earliest"}), None),
        (WrittenInput([NEW, DONE], 1, 2, frozenset({1}), group_settings={RESET: "earliest"}), None),
        (WrittenInput([Write(600, 0, count=-1), DONE], partitions_of_topic=2), None),
        (WrittenInput([Write(600, 7300), DONE], partitions_of_topic=2), None),
        (WrittenInput([NEW, Write(600, 0, partition=1)], 0, 2), 0),  # nothing ever came
    ],
)
def test_a_sum_with_an_unknown_part_is_unknown(group: WrittenInput, lag: int | None) -> None:
    now = gathered(group)
    numbers = json.loads(ask(application(lambda: now), "/keda/billing", query="target=100")[2])
    assert (numbers["lag"], numbers["lag_excluding_stuck"]) == (lag, lag)
    assert numbers["consumers"] == (None if lag is None else lag / 100)
    assert numbers["age_seconds"] == (0 if lag == 0 else None)
    found = metrics(now)
    sums = {} if lag is None else {labels(group="billing"): lag}
    assert found.get("kafka_share_group_sum_lag", {}) == sums
    assert ("kafka_share_group_max_lag" in found) == (lag is not None)


@pytest.mark.parametrize(("reset", "largest"), [("earliest", 7200), ("latest", None)])
def test_the_largest_lag_may_be_one_that_was_never_fetched(reset: str, largest: int | None) -> None:
    behind = Write(600, 7100, partition=1)
    now = gathered(WrittenInput([NEW, behind], 1, 2, group_settings={RESET: reset}))
    found = metrics(now)
    mine = labels(group="billing")
    assert found.get("kafka_share_group_max_lag", {}) == ({mine: largest} if largest else {})
    even = 7200 / ((7200 + 100) / 2)
    ratios = found.get("kafka_share_group_imbalance_ratio", {})
    assert ratios == ({mine: pytest.approx(even)} if largest else {})


def test_a_group_without_members_is_not_held_at_zero(tmp_path: Path) -> None:
    """A log: one share partition is finished, 5 records of the other were never fetched."""
    file = tmp_path / "sharelag.prom"
    sharelag(
        "export", "prometheus", "--textfile", str(file), "--segments", str(NOT_STARTED), code=0
    )
    found = samples(file.read_text(), text_families)
    fraud = labels(group="fraud")
    for name in ("sum_lag", "sum_lag_excluding_stuck", "max_lag", "imbalance_ratio"):
        assert fraud not in found.get(f"kafka_share_group_{name}", {})
    assert found["kafka_share_group_unknown_lags"][fraud] == 1
    words = ("--segments", str(NOT_STARTED), "--group", "fraud", "--engine", "local")
    told = sharelag("lag", *words, "--by", "group", "-o", "json")
    row = json.loads(told.stdout)
    assert (row["lag"], row["max_lag"], row["unknown_lags"]) == (None, None, 1)
    assert "lag - (+1 unknown)" in told.stderr
    spread = map(json.loads, sharelag("imbalance", *words, "-o", "json").stdout.splitlines())
    totals = [(r["over"], r["topic"], r["total"]) for r in spread if r["measure"] == "lag"]
    expected = {("partition", None, None), ("topic", None, None), ("partition", "clicks", None)}
    assert (len(totals), set(totals)) == (3, expected)
    assert "fraud: no lag is known" in sharelag("imbalance", *words).stderr
    simulated = sharelag("simulate", "--segments", str(NOT_STARTED), "--group", "fraud")
    assert "records in 1 partition that the group has never read do not wait" in simulated.stderr


# ---- files
def test_the_text_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "sharelag.prom"
    write_textfile(gathered(CaptureInput(CAPTURE)), file)
    found = samples(file.read_text(), text_families)
    assert found["kafka_share_group_sum_lag"][labels(group="billing")] == 2390
    assert [path.name for path in tmp_path.iterdir()] == ["sharelag.prom"]
    with pytest.raises(InputError, match="cannot write"):
        write_textfile(Gathered(None), tmp_path / "none" / "x.prom")
    before = file.read_bytes()
    export = ("export", "prometheus", "--textfile", str(file), "--capture")
    sharelag(*export, str(tmp_path), code=1)
    assert file.read_bytes() == before
    sharelag(*export, str(SCENARIOS / "poison"), code=0)
    sums = samples(file.read_text(), text_families)["kafka_share_group_sum_lag"]
    assert sums == {labels(group="poison"): 1}


def test_each_run_has_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "lake"
    export = ("export", "--to", "parquet", "--out", str(out))
    sharelag(*export, "--capture", str(SCENARIOS / "poison"), code=0)
    (run,) = out.iterdir()
    assert run.name == "20261121T082250.064Z"
    assert sorted(path.name for path in run.iterdir()) == [
        "imbalance.parquet", "lag.parquet", "run.json", "windows.parquet"
    ]  # fmt: skip
    poison = engines.read(CaptureInput(SCENARIOS / "poison"), "local")
    assert pq.read_table(run / "lag.parquet").equals(poison.evidence.lag)
    assert pq.read_table(run / "windows.parquet").equals(poison.evidence.windows)
    assert pq.read_table(run / "imbalance.parquet").equals(poison.imbalance())
    assert json.loads((run / "run.json").read_text())["as_of"] == "2026-11-21T08:22:50.064Z"
    with pytest.raises(InputError, match="already exists"):
        write_run(poison, out)
    written: list[str] = []

    def fail(table: pa.Table, path: Path, **_: Any) -> None:
        written.append(path.name)
        if len(written) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(InputError, match="No space left on device"):
        write_run(poison, tmp_path / "full")
    assert written == ["lag.parquet", "windows.parquet"]
    assert list((tmp_path / "full").iterdir()) == []


def test_delta_tables_grow_by_each_moment_once(tmp_path: Path) -> None:
    out = tmp_path / "lake"
    to_delta = ("export", "--to", "delta", "--out", str(out), "--capture")
    done = sharelag(*to_delta, str(SCENARIOS / "poison"))
    assert done.stderr.splitlines()[0] == f"sharelag: appended to lag, windows, imbalance in {out}"
    source = CaptureInput(SCENARIOS / "poison")
    now = engines.read(source, "local")
    readings = [now, engines.read(source, "local", now.now - timedelta(seconds=1))]
    poison, earlier = (begun.evidence for begun in readings)
    found = ["group_id", "topic", "partition", "lag", "notes"]
    assert DeltaTable(out / "lag").to_pyarrow_table().select(found).equals(poison.lag.select(found))
    shutil.rmtree(out / "windows")  # as if the run had been interrupted
    assert (append_run(readings[0], out), append_run(readings[0], out)) == (["windows"], [])
    assert append_run(readings[1], out) == ["lag", "windows", "imbalance"]
    windows = DeltaTable(out / "windows").to_pyarrow_table()
    assert windows.num_rows == poison.windows.num_rows + earlier.windows.num_rows
    told = {moment.replace(tzinfo=UTC) for moment in windows.column("as_of").to_pylist()}
    assert told == {poison.as_of, earlier.as_of}
    of_now = windows.filter(pc.equal(windows["as_of"], poison.as_of))
    assert of_now.column("batches").to_pylist() == poison.windows.column("batches").to_pylist()
    seen = [one["source"] for one in DeltaTable(out / "windows").history()]
    assert seen == [begun.source.describe() for begun in (readings[1], readings[0])]
    with pytest.raises(InputError, match=r"has the lag of share groups of cluster \S+, not of"):
        append_run(engines.read(CaptureInput(SCENARIOS / "slow"), "local"), out)
    kept = CurrentTables(tmp_path / "now", "c", "cluster at b:1")
    kept.write(poison.windows, poison.lag)
    with pytest.raises(InputError, match="is not a table of lag of share groups: choose another"):
        append_run(now, tmp_path / "now")
    assert not (tmp_path / "now" / "imbalance").exists()
    (tmp_path / "file").touch()
    for place, words in (
        ("file", "check the path and permissions"),
        ("deltalake panics at [1]", r"rename the folder with \[ in it"),
        ("taken for a folder with a%20blank", "rename the folder with %20 in it"),
    ):
        with pytest.raises(InputError, match=words):
            append_run(readings[0], tmp_path / place)


def test_the_scaled_object_asks_for_what_is_answered() -> None:
    documents = list(yaml.safe_load_all((EXAMPLES / "keda-scaledobject.yaml").read_text()))
    assert [one["kind"] for one in documents] == ["Secret", "TriggerAuthentication", "ScaledObject"]
    (trigger,) = documents[2]["spec"]["triggers"]
    about = trigger["metadata"]
    assert trigger["type"] == "metrics-api"
    path = re.fullmatch(r"http://sharelag:9308(/keda/billing)", about["url"])
    assert path
    now = gathered(WrittenInput([Write(600, 6500)]))
    token = documents[0]["stringData"]["token"]
    app = application(lambda: now, token)
    status, _, body = ask(app, path[1], host="sharelag:9308", authorization=f"Bearer {token}")
    assert status == 200
    value = json.loads(body)[about["valueLocation"]]
    assert isinstance(value, int)
    assert value / float(about["targetValue"]) == 7


def _state(*partitions: int, end: int = 110) -> tuple[pa.Table, pa.Table]:
    records = [
        encode_record(SHARE_SNAPSHOT, row(10, [(10, 14, 2, 1)], partition=p)) for p in partitions
    ]
    windows = pa.Table.from_batches([replay_arrow(decode_arrow(raw(records)).records)])
    return windows, pa.Table.from_batches([lag_arrow(windows, offsets(end))])


def _read(folder: Path, name: str) -> pa.Table:
    return DeltaTable(str(folder / name)).to_pyarrow_table()


def _tables(folder: Path, cluster: str = "c1") -> CurrentTables:
    return CurrentTables(folder, cluster, "cluster at b:1")


def test_tables_as_of_now_are_what_was_written_last(tmp_path: Path) -> None:
    tables = _tables(tmp_path / "new")
    tables.write(*_state(0, 1))
    reader = DeltaTable(str(tmp_path / "new" / "lag"))
    windows, lag = _state(0, end=120)
    tables.write(windows, lag)
    assert _read(tmp_path / "new", "lag").cast(lag.schema).to_pylist() == lag.to_pylist()
    got = _read(tmp_path / "new", "windows")
    assert got.column("topic").to_pylist() == lag.column("topic").to_pylist()
    assert got.drop_columns("topic").cast(windows.schema).to_pylist() == windows.to_pylist()
    assert reader.to_pyarrow_table().num_rows == 2  # whoever began to read before goes on with that
    (last,) = DeltaTable(str(tmp_path / "new" / "lag")).history(1)
    assert last["source"] == "cluster at b:1"


def test_windows_of_these_tables_are_written_where_they_changed(tmp_path: Path) -> None:
    tables = _tables(tmp_path)
    for end in (110, 111, 112):
        tables.write(*_state(0, end=end))
    assert [DeltaTable(str(tmp_path / name)).version() for name in ("windows", "lag")] == [0, 2]
    # Who begins again cannot know what was written.
    _tables(tmp_path).write(*_state(0, end=112))
    assert DeltaTable(str(tmp_path / "windows")).version() == 1


def test_files_of_tables_of_now_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "KEEP", timedelta(0))
    monkeypatch.setattr(current, "_TIDY_EVERY", 10)
    tables, state = _tables(tmp_path), _state(0, 1)
    (tmp_path / "lag").mkdir()
    (tmp_path / "lag" / "part-of-one-that-was-killed.parquet").write_bytes(b"")
    for _ in range(35):
        tables.write(*state)
    assert len(list((tmp_path / "lag").glob("*.parquet"))) <= 5
    assert len(DeltaTable(str(tmp_path / "lag")).file_uris()) == 1


def test_tables_as_of_now_replace_no_other_table(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "lag"), pa.table({"mine": [1]}))
    said = r"lag is a different table and would be replaced: choose another"
    with pytest.raises(InputError, match=said):
        _tables(tmp_path)
    _tables(tmp_path / "ours").write(*_state(0))
    with pytest.raises(InputError, match="windows is a different table and"):
        _tables(tmp_path / "ours", "c2")
    assert _read(tmp_path, "lag").to_pydict() == {"mine": [1]}


def test_a_table_as_of_now_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "windows").write_text("a file")
    with pytest.raises(InputError, match=r"cannot read .*windows .*: check the path"):
        _tables(tmp_path)
    tables = _tables(tmp_path / "new")
    (tmp_path / "new").write_text("a file")
    with pytest.raises(InputError, match=r"cannot write to .*windows .*: check the path"):
        tables.write(*_state(0))
