"""Other programs get the numbers as they are, cheaply, and nothing else."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, timedelta
from itertools import pairwise
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable
from prometheus_client import openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as text_families

from sharelag.cli.demo import CAPTURE
from sharelag.errors import BrokerUnreachableError, InputError
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.exports.gathered import Gathered, gathering
from sharelag.monitoring.exports.lake import append_run, write_run
from sharelag.monitoring.exports.metrics import write_textfile
from sharelag.monitoring.exports.scaling import scaling
from sharelag.monitoring.exports.server import application, is_loopback, server, write_ahead
from sharelag.sources.inputs import CaptureInput
from sharelag.workbench import engine, investigate
from tests.support.command import sharelag
from tests.support.scrapes import ask, gathered, running
from tests.support.written_input import Write, WrittenInput

EXAMPLES = CAPTURE.parents[1] / "examples"
SCENARIOS = CAPTURE.parent / "scenarios"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def samples(text: str, families: Any = openmetrics_families) -> Samples:
    """Values by metric and labels; each may be there only once."""
    found: Samples = {}
    for family in families(text):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in series
            series[labels] = sample.value
    return found


def scrape(now: Gathered) -> Samples:
    status, headers, body = ask(application(lambda: now), "/metrics", accept=OPENMETRICS)
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    return samples(body.decode())


def labels(**pairs: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pairs.items()))


# ---- metrics


def test_the_metrics_are_the_lag_table_and_what_is_unknown_is_not_there() -> None:
    now = gathered(CaptureInput(CAPTURE))
    found = scrape(now)
    assert now.evidence is not None
    columns = {"kafka_share_group_lag": "lag", "kafka_share_group_start_offset": "start_offset"}
    columns["kafka_share_group_delivery_complete_count"] = "delivery_complete_count"
    rows = now.evidence.lag.to_pylist()
    for metric, column in columns.items():
        assert found[metric] == {
            labels(group=row["group_id"], topic=row["topic"], partition=str(row["partition"])): row[
                column
            ]
            for row in rows
            if row[column] is not None
        }
    assert len(found["kafka_share_group_lag"]) < len(rows)
    ages = {
        row["age_ms"] / 1000
        for row in now.evidence.progress.to_pylist()
        if row["age_ms"] is not None
    }
    assert set(found["kafka_share_group_oldest_unacked_seconds"].values()) == ages
    assert len(found["kafka_share_group_window_records"]) == 3 * len(
        found["kafka_share_group_start_offset"]
    )
    assert {dict(key)["state"] for key in found["kafka_share_group_window_records"]} == {
        "available", "complete", "unknown"
    }  # fmt: skip
    assert found["kafka_share_group_sum_lag"][labels(group="billing")] == 2390
    assert labels(group="analytics") not in found["kafka_share_group_sum_lag"]
    assert found["kafka_share_group_unknown_lags"][labels(group="analytics")] == 3
    of_billing = [row["lag"] for row in rows if row["group_id"] == "billing"]
    assert found["kafka_share_group_max_lag"][labels(group="billing")] == max(of_billing)
    assert found["kafka_share_group_imbalance_ratio"][labels(group="billing")] == pytest.approx(
        max(of_billing) * len(of_billing) / sum(of_billing)
    )
    assert not [value for series in found.values() for value in series.values() if value < 0]
    assert found["kafka_share_group_last_success_timestamp_seconds"] == {(): 1_000.0}
    assert found["kafka_share_group_collect_duration_seconds"] == {(): 0.5}


def test_names_of_groups_are_hostile_text() -> None:
    names = ['a"b', "a\\b", "a\nb", "ä 日本", "{group}", "a,b=c"]
    now = gathered(WrittenInput([Write(600, 6600, group=name) for name in names]))
    assert {dict(key)["group"] for key in scrape(now)["kafka_share_group_lag"]} == set(names)
    _, _, text = ask(application(lambda: now), "/metrics")
    assert {
        dict(key)["group"] for key in samples(text.decode(), text_families)["kafka_share_group_lag"]
    } == set(names)
    for name in names:
        assert json.loads(ask(application(lambda: now), f"/keda/{name}")[2])["group"] == name


def test_duplicates_and_unnamed_rows_are_left_out() -> None:
    now = gathered(
        WrittenInput([Write(600, 6600), Write(600, 6600, partition=1)], partitions_of_topic=2)
    )
    assert now.evidence is not None
    lag = now.evidence.lag
    twice = replace(now.evidence, lag=pa.concat_tables([lag, lag.slice(0, 1)]))
    assert [dict(key)["partition"] for key in scrape(Gathered(twice))["kafka_share_group_lag"]] == [
        "1"
    ]
    place = lag.schema.get_field_index("topic")
    nameless = replace(now.evidence, lag=lag.set_column(place, "topic", pa.nulls(2, pa.string())))
    assert "kafka_share_group_lag" not in scrape(Gathered(nameless))


def test_a_group_with_ends_that_cannot_be_read_has_no_sum() -> None:
    writes = [Write(600, 6600, partition=p) for p in range(4)]
    now = gathered(WrittenInput(writes, partitions_of_topic=4, unreachable=frozenset({1, 3})))
    found = scrape(now)
    assert "kafka_share_group_sum_lag" not in found
    assert found["kafka_share_group_max_lag"] == {labels(group="billing"): 600}
    assert found["kafka_share_group_unknown_lags"] == {labels(group="billing"): 2}
    assert json.loads(ask(application(lambda: now), "/keda/billing")[2])["lag"] is None


def test_nothing_at_all_is_valid_too() -> None:
    assert scrape(Gathered(None)) == {"kafka_share_group_collect_attempts_total": {(): 0}}
    assert "kafka_share_group_lag" not in scrape(gathered(WrittenInput([])))


# ---- asking


class Cluster:
    """Each request is answered when the test says with what."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.answers: Queue[Evidence | Exception] = Queue()
        self.over = threading.Event()  # then it answers at once, and nothing good

    def gather(self) -> Evidence:
        self.asked.release()
        answer: Evidence | Exception = BrokerUnreachableError("it is over")
        while not self.over.is_set():
            with suppress(Empty):
                answer = self.answers.get(timeout=0.05)
                break
        if isinstance(answer, Exception):
            raise answer
        return answer


def until(told: Callable[[], Gathered], attempts: int) -> Gathered:
    """What is known after so many attempts; the last one has ended already or is about to."""
    deadline = time.monotonic() + 30
    while told().attempts < attempts:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return told()


def evidence_of(start: int) -> Evidence:
    return investigate.gather(WrittenInput([Write(600, start)]), "local")


def test_who_asks_never_waits_for_the_cluster() -> None:
    cluster = Cluster()
    with gathering(cluster.gather, every=0.001) as told, running(told) as port:
        assert cluster.asked.acquire(timeout=30)
        # The first request is on its way, and has no answer.
        begun = time.monotonic()
        status, text = get(port, "/metrics", {"Accept": OPENMETRICS})
        assert (status, samples(text.decode())) == (
            200,
            {"kafka_share_group_collect_attempts_total": {(): 0}},
        )
        status, headers, text = ask(application(told), "/keda/billing")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert json.loads(text) == {"error": "nothing has been collected yet; try again"}
        assert time.monotonic() - begun < 15  # the cluster does not answer before it may

        cluster.answers.put(evidence_of(6600))
        assert cluster.asked.acquire(timeout=30)
        # It has answered once, and is being asked again.
        begun = time.monotonic()
        for _ in range(3):
            found = samples(get(port, "/metrics", {"Accept": OPENMETRICS})[1].decode())
            assert found["kafka_share_group_sum_lag"] == {labels(group="billing"): 600}
            assert found["kafka_share_group_collect_attempts_total"] == {(): 1}
            assert json.loads(get(port, "/keda/billing")[1])["lag"] == 600
        assert time.monotonic() - begun < 15  # the cluster does not answer before it may
        succeeded = found["kafka_share_group_last_success_timestamp_seconds"]

        cluster.answers.put(BrokerUnreachableError("no broker answered at secret-host:9092"))
        assert cluster.asked.acquire(timeout=30)
        failed = get(port, "/metrics", {"Accept": OPENMETRICS})[1].decode()
        found = samples(failed)
        assert "kafka_share_group_lag" not in found  # an autoscaler holds still
        assert found["kafka_share_group_collect_errors_total"] == {
            labels(kind="BrokerUnreachableError"): 1
        }
        assert found["kafka_share_group_collect_attempts_total"] == {(): 2}
        assert found["kafka_share_group_last_success_timestamp_seconds"] == succeeded
        status, told_keda = get(port, "/keda/billing")
        assert (status, b"could not be read" in told_keda) == (503, True)
        assert "secret-host" not in failed + told_keda.decode()

        cluster.answers.put(evidence_of(6500))
        assert cluster.asked.acquire(timeout=30)
        assert json.loads(get(port, "/keda/billing")[1])["lag"] == 700
        cluster.answers.put(ValueError("a mistake of our own ends nothing"))
        assert until(told, 4).errors == {"BrokerUnreachableError": 1, "unexpected": 1}
        cluster.over.set()


def test_a_cluster_is_read_at_intervals_however_many_scrape() -> None:
    asked: list[float] = []
    evidence = evidence_of(6600)

    def gather() -> Evidence:
        asked.append(time.monotonic())
        return evidence

    with gathering(gather, every=3600) as told:
        until(told, 1)
        app, answers = application(told), []
        threads = [
            threading.Thread(target=lambda: answers.append(ask(app, "/metrics")[2]))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 8
        assert len({id(answer) for answer in answers}) == 1  # nor is it written more than once
    assert len(asked) == 1
    asked.clear()
    with gathering(gather, every=0.05) as told:
        until(told, 4)
    assert min(later - earlier for earlier, later in pairwise(asked)) >= 0.05


def test_a_result_is_written_before_the_next_one_is_requested() -> None:
    cluster = Cluster()
    with gathering(cluster.gather, 0.001, write_ahead) as told:
        for attempts in (1, 2):
            cluster.answers.put(evidence_of(6600 - 100 * attempts))
            now = until(told, attempts)
            assert len(now.texts) == attempts - 1  # nobody had asked for anything at first
            status, _, text = ask(application(told), "/metrics", accept=OPENMETRICS)
            assert (status, list(now.texts.values())) == (200, [text])
            found = samples(text.decode())
            assert found["kafka_share_group_sum_lag"] == {
                labels(group="billing"): 600 + 100 * attempts
            }
        cluster.over.set()


def test_gathering_ends_with_its_context() -> None:
    def threads() -> list[str]:
        return [
            thread.name for thread in threading.enumerate() if thread.name == "sharelag-gathering"
        ]

    begun = time.monotonic()
    with gathering(lambda: evidence_of(6600), every=3600) as told:
        until(told, 1)
        assert len(threads()) == 1
    assert threads() == []  # also while it waits for the next time
    assert time.monotonic() - begun < 30
    cluster = Cluster()
    with gathering(cluster.gather, every=3600) as told:
        assert cluster.asked.acquire(timeout=30)
        threading.Timer(
            0.2, cluster.over.set
        ).start()  # the answer comes when nobody wants it any more
    assert threads() == []
    assert told().attempts == 1


# ---- scaling


@pytest.mark.row("ASG-10")
def test_a_lag_of_700_asks_for_7_consumers_of_100_each() -> None:
    now = gathered(WrittenInput([Write(600, 6500)]))
    status, headers, body = ask(application(lambda: now), "/keda/billing", query="target=100")
    told = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert (told["lag"], told["lag_excluding_stuck"], told["consumers"]) == (700, 700, 7)
    assert told["age_seconds"] == pytest.approx(700)
    assert (
        json.loads(ask(application(lambda: now), "/keda/billing", query="target=99")[2])[
            "consumers"
        ]
        == 8
    )
    for wrong in ("0", "-1", "x", "1e3", "9" * 5000):
        assert ask(application(lambda: now), "/keda/billing", query=f"target={wrong}")[0] == 400
    assert ask(application(lambda: now), "/keda/nobody")[0] == 404


def test_what_more_consumers_would_not_finish_is_left_out() -> None:
    """Of the recordings, what is stuck is what they were made to show."""
    for name, left in (
        ("poison", 0),
        ("window_full", 0),
        ("head_of_line", 0),
        ("open_transaction", None),
    ):
        evidence = investigate.gather(CaptureInput(SCENARIOS / name), "local")
        (told,) = scaling(evidence, timedelta(seconds=2.5)).values()
        assert told["lag"] > 0
        assert 0 <= told["lag_excluding_stuck"] < told["lag"]
        assert left is None or told["lag_excluding_stuck"] <= left + 1
    (told,) = scaling(investigate.gather(CaptureInput(SCENARIOS / "no_members"), "local")).values()
    assert (told["lag"], told["lag_excluding_stuck"], told["members"]) == (240, 240, 0)
    (told,) = scaling(investigate.gather(CaptureInput(SCENARIOS / "not_started"), "local")).values()
    assert told["age_seconds"] is None
    assert (told["lag"], told["lag_excluding_stuck"], told["unknown_lags"]) == (None, None, 4)


# ---- the server


def get(
    port: int, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_over_the_network() -> None:
    now = gathered(WrittenInput([Write(600, 6600, group="a/b c")]))
    with running(lambda: now) as port:
        status, text = get(port, "/metrics", {"Accept": OPENMETRICS})
        assert status == 200
        assert samples(text.decode())["kafka_share_group_sum_lag"] == {labels(group="a/b c"): 600}
        assert json.loads(get(port, "/keda/a%2Fb%20c")[1])["lag"] == 600
        assert get(port, "/metrics", method="HEAD") == (200, b"")
        assert get(port, "/metrics", method="POST")[0] == 405
        assert get(port, "/../etc/passwd")[0] == 404
        # A page in a browser that has another site's name point here.
        assert get(port, "/metrics", {"Host": "evil.example"})[0] == 403
        assert get(port, "/metrics", {"Host": "localhost:1"})[0] == 200


def test_a_token_is_required() -> None:
    now = gathered(WrittenInput([Write(600, 6600)]))
    with running(lambda: now, "s3cret-token") as port:
        for headers in ({}, {"Authorization": "Bearer s3cret-tokem"}, {"Authorization": "Basic s3cret-token"},
                        {"Authorization": "Bearer "}, {"Authorization": "s3cret-token"}):  # fmt: skip
            status, text = get(port, "/metrics", headers)
            assert status == 401
            assert b"s3cret" not in text
            assert b"kafka_" not in text
        assert get(port, "/keda/billing")[0] == 401
        for right in ("Bearer s3cret-token", "bearer s3cret-token"):
            assert get(port, "/metrics", {"Authorization": right, "Host": "sharelag"})[0] == 200


def test_only_this_machine_without_a_token() -> None:
    assert [
        is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost")
    ] == [True] * 5
    for host in (
        "0.0.0.0",
        "::",
        "10.0.0.1",
        "example.com",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "",
    ):
        assert not is_loopback(host)
    for host in ("0.0.0.0", "::", ""):
        with pytest.raises(InputError, match=r"other machines can reach .*: set a token"):
            server(lambda: Gathered(None), host, 0)
    server(lambda: Gathered(None), "0.0.0.0", 0, "token").server_close()
    with (
        running(lambda: Gathered(None)) as port,
        pytest.raises(InputError, match="cannot listen on"),
    ):
        server(lambda: Gathered(None), "127.0.0.1", port)


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
    answer = sharelag("export", "prometheus", "--textfile", str(file), "--capture", str(tmp_path))
    assert answer.returncode == 1
    assert file.read_bytes() == before
    answer = sharelag(
        "export", "prometheus", "--textfile", str(file), "--capture", str(SCENARIOS / "poison")
    )
    assert answer.returncode == 0, answer.stderr
    assert samples(file.read_text(), text_families)["kafka_share_group_sum_lag"] == {
        labels(group="poison"): 1
    }


def test_each_run_has_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "lake"
    answer = sharelag(
        "export", "--to", "parquet", "--out", str(out), "--capture", str(SCENARIOS / "poison")
    )
    assert answer.returncode == 0, answer.stderr
    (run,) = out.iterdir()
    assert run.name == "20261121T082250.064Z"
    assert sorted(path.name for path in run.iterdir()) == [
        "imbalance.parquet", "lag.parquet", "run.json", "windows.parquet"
    ]  # fmt: skip
    poison = engine.read(CaptureInput(SCENARIOS / "poison"), "local")
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
    answer = sharelag(*to_delta, str(SCENARIOS / "poison"))
    assert (
        answer.stderr.splitlines()[0] == f"sharelag: appended to lag, windows, imbalance in {out}"
    )
    readings = [engine.read(CaptureInput(SCENARIOS / name), "local") for name in ("poison", "slow")]
    poison, slow = (begun.evidence for begun in readings)
    told = ["group_id", "topic", "partition", "lag", "notes"]
    assert DeltaTable(out / "lag").to_pyarrow_table().select(told).equals(poison.lag.select(told))
    shutil.rmtree(out / "windows")  # as if the run had been interrupted
    assert append_run(readings[0], out) == ["windows"]
    assert append_run(readings[0], out) == []
    assert append_run(readings[1], out) == ["lag", "windows", "imbalance"]
    windows = DeltaTable(out / "windows").to_pyarrow_table()
    assert windows.num_rows == poison.windows.num_rows + slow.windows.num_rows
    assert {moment.replace(tzinfo=UTC) for moment in windows.column("as_of").to_pylist()} == {
        poison.as_of,
        slow.as_of,
    }
    of_poison = windows.filter(pc.equal(windows["group_id"], "poison"))
    assert of_poison.column("batches").to_pylist() == poison.windows.column("batches").to_pylist()
    assert [one["source"] for one in DeltaTable(out / "windows").history()] == [
        begun.source.describe() for begun in (readings[1], readings[0])
    ]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot append to"):
        append_run(readings[0], tmp_path / "file")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "choose what to export"),
        (["--to", "parquet"], "choose what to export"),
        (["--capture", "x", "serve"], "put options after serve"),
        (["prometheus", "--capture", "x"], "Missing option '--textfile'"),
        (["--to", "csv", "--out", "x"], "'csv' is not one of 'parquet', 'delta'"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    answer = sharelag("export", *arguments)
    assert answer.returncode == 2
    assert told in answer.stderr


def test_serving_until_a_signal_ends_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from sharelag.cli import main; main()",
        "export",
        "serve",
        "--port",
        "0",
    ]
    command += ["--capture", str(SCENARIOS / "poison")]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", process.stderr.readline())
            assert found
            deadline = time.monotonic() + 60
            while b"kafka_share_group_lag" not in (answer := get(int(found[1]), "/metrics"))[1]:
                assert (answer[0], time.monotonic() < deadline) == (200, True)
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
    refused = sharelag(
        "export", "serve", "--host", "0.0.0.0", "--capture", str(SCENARIOS / "poison")
    )
    assert refused.returncode == 1
    assert "set a token" in refused.stderr


# ---- examples


def test_the_dashboard_shows_metrics_that_are_there() -> None:
    board = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
    asked = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
    asked += board["templating"]["list"][1]["query"]["query"]
    now = gathered(CaptureInput(SCENARIOS / "poison"))
    errors = Gathered(now.evidence, 1.0, 1.0, {"ClusterError": 1})
    told = scrape(errors)
    names = set(re.findall(r"kafka_share_group_\w+", asked))
    assert names <= told.keys()
    others = {"delivery_complete_count", "max_lag", "collect_attempts_total"}
    assert told.keys() - names == {f"kafka_share_group_{name}" for name in others}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


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


def test_openmetrics_ends_as_it_has_to() -> None:
    text = ask(application(lambda: Gathered(None)), "/metrics", accept=OPENMETRICS)[2].decode()
    assert text.endswith("# EOF\n")
    with pytest.raises(ValueError, match="EOF"):
        list(openmetrics.parser.text_string_to_metric_families(text.removesuffix("# EOF\n")))
