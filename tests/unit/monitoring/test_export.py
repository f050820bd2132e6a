"""Other programs get the numbers as they are, cheaply, and nothing else."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from prometheus_client import openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_families

from sharelag.errors import BrokerUnreachableError, InputError
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.exports.gathered import Gathered, gathering
from sharelag.monitoring.exports.server import application, is_loopback, server, write_ahead
from sharelag.sources.inputs import CaptureInput
from sharelag.workbench import investigate
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag
from tests.support.exports import EXAMPLES, SCENARIOS, Samples, labels, samples
from tests.support.scrapes import ask, gathered, running
from tests.support.written_input import Write, WrittenInput

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def scrape(now: Gathered) -> Samples:
    status, headers, body = ask(application(lambda: now), "/metrics", accept=OPENMETRICS)
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    return samples(body.decode())


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


def test_a_scrape_that_a_terminal_prints_does_not_act_on_it() -> None:
    """Escapes, a link of OSC 8 and directions are escaped; no two names become one label."""
    shown = {
        "\x1b[31mred": "\\x1b[31mred",
        "\\x1b[31mred": "\\\\x1b[31mred",
        "\\\x1b[31mred": "\\\\\\x1b[31mred",
        "\x1b]8;;http://evil\x07here": "\\x1b]8;;http://evil\\x07here",
        "a\u202eb": "a\\u202eb",
        "a\x9bb": "a\\x9bb",
        "a\rb\tc": "a\\rb\\tc",
        "ends\\": "ends\\\\",
        "shop\\billing": "shop\\billing",
    }
    now = gathered(WrittenInput([Write(600, 6600, group=name) for name in shown]))
    for kind in ("*/*", OPENMETRICS):
        _, _, text = ask(application(lambda: now), "/metrics", accept=kind)
        assert all(c.isprintable() or c == "\n" for c in text.decode())
    found = {dict(key)["group"] for key in scrape(now)["kafka_share_group_lag"]}
    assert found == set(shown.values())


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
    assert "kafka_share_group_max_lag" not in found
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


def until(result: Callable[[], Gathered], attempts: int) -> Gathered:
    """What is known after so many attempts; the last one has ended already or is about to."""
    deadline = time.monotonic() + 30
    while result().attempts < attempts:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return result()


def evidence_of(start: int) -> Evidence:
    return investigate.gather(WrittenInput([Write(600, start)]), "local")


def test_who_asks_never_waits_for_the_cluster() -> None:
    cluster = Cluster()
    with gathering(cluster.gather, every=0.001) as result, running(result) as port:
        assert cluster.asked.acquire(timeout=30)
        # The first request is on its way, and has no answer.
        begun = time.monotonic()
        status, text = get(port, "/metrics", {"Accept": OPENMETRICS})
        assert (status, samples(text.decode())) == (
            200,
            {"kafka_share_group_collect_attempts_total": {(): 0}},
        )
        status, headers, text = ask(application(result), "/keda/billing")
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
        assert until(result, 4).errors == {"BrokerUnreachableError": 1, "unexpected": 1}
        cluster.over.set()


def test_a_cluster_is_read_at_intervals_however_many_scrape() -> None:
    asked: list[float] = []
    evidence = evidence_of(6600)

    def gather() -> Evidence:
        asked.append(time.monotonic())
        return evidence

    with gathering(gather, every=3600) as result:
        until(result, 1)
        app, answers = application(result), []
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
    with gathering(gather, every=0.05) as result:
        until(result, 4)
    assert min(later - earlier for earlier, later in pairwise(asked)) >= 0.05


def test_a_result_is_written_before_the_next_one_is_requested() -> None:
    cluster = Cluster()
    with gathering(cluster.gather, 0.001, write_ahead) as result:
        for attempts in (1, 2):
            cluster.answers.put(evidence_of(6600 - 100 * attempts))
            now = until(result, attempts)
            assert len(now.texts) == attempts - 1  # nobody had asked for anything at first
            status, _, text = ask(application(result), "/metrics", accept=OPENMETRICS)
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
    with gathering(lambda: evidence_of(6600), every=3600) as result:
        until(result, 1)
        assert len(threads()) == 1
    assert threads() == []  # also while it waits for the next time
    assert time.monotonic() - begun < 30
    cluster = Cluster()
    with gathering(cluster.gather, every=3600) as result:
        assert cluster.asked.acquire(timeout=30)
        threading.Timer(
            0.2, cluster.over.set
        ).start()  # the answer comes when nobody wants it any more
    assert threads() == []
    assert result().attempts == 1


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


def test_a_probe_needs_no_token_and_tells_one_word() -> None:
    failing = Gathered(None, errors={"timeout": 3}, attempts=3)
    with running(lambda: failing, "s3cret-token") as port:
        assert get(port, "/livez") == (200, b"ok\n")
        assert get(port, "/livez", method="HEAD") == (200, b"")
        assert get(port, "/livez", method="POST")[0] == 401
        assert get(port, "/livez/")[0] == 401


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "is empty"), (None, "No such file"), (b"\xff", "not UTF-8")],
)
def test_a_token_file_that_holds_none_is_refused(
    content: str | bytes | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = sharelag("export", "serve", "--capture", "demo", "--token-file", str(file))
    assert (answer.returncode, said in answer.stderr) == (1, True)


def test_a_token_and_a_file_of_one_are_too_many(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("file-token\n")
    answer = sharelag(
        "export", "serve", "--capture", "demo", "--token-file", str(tmp_path / "token"),
        env={"SHARELAG_TOKEN": "s3cret-token"},
    )  # fmt: skip
    assert answer.returncode == 2
    assert "not both" in answer.stderr
    assert "-token\n" not in answer.stderr


def test_the_token_of_a_file_is_the_one_required(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("file-token\n")
    used: list[str | None] = []

    @contextmanager
    def instead(gathered: Any, host: str, port: int, token: str | None) -> Iterator[Any]:
        used.append(token)
        raise KeyboardInterrupt
        yield

    with patch("sharelag.monitoring.exports.server.server", instead):
        answer = sharelag(
            "export", "serve", "--capture", "demo", "--token-file", str(tmp_path / "token")
        )
    assert (used, answer.returncode) == (["file-token"], 0)


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


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ([], "choose what to export"),
        (["--to", "parquet"], "choose what to export"),
        (["--capture", "x", "serve"], "put options after serve"),
        (["prometheus", "--capture", "x"], "Missing option '--textfile'"),
        (["--to", "csv", "--out", "x"], "'csv' is not one of 'parquet', 'delta'"),
    ],
)
def test_wrong_usage(arguments: list[str], result: str) -> None:
    answer = sharelag("export", *arguments)
    assert answer.returncode == 2
    assert result in answer.stderr


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
    result = scrape(errors)
    names = set(re.findall(r"kafka_share_group_\w+", asked))
    assert names <= result.keys()
    others = {"delivery_complete_count", "max_lag", "collect_attempts_total"}
    assert result.keys() - names == {f"kafka_share_group_{name}" for name in others}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_openmetrics_ends_as_it_has_to() -> None:
    text = ask(application(lambda: Gathered(None)), "/metrics", accept=OPENMETRICS)[2].decode()
    assert text.endswith("# EOF\n")
    with pytest.raises(ValueError, match="EOF"):
        list(openmetrics.parser.text_string_to_metric_families(text.removesuffix("# EOF\n")))
