"""Other programs get the numbers as they are, cheaply, and nothing else."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families as text_families

from sharelag.engine import engines
from sharelag.errors import BrokerUnreachableError, InputError
from sharelag.inputs import CaptureInput
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.exports import (
    Gathered,
    application,
    gathering,
    is_loopback,
    server,
    write_ahead,
)
from tests.support.chapters import CAPTURE
from tests.support.command import refused, sharelag
from tests.support.records import with_column
from tests.support.scrapes import (
    EXAMPLES,
    SCENARIOS,
    Samples,
    ask,
    gathered,
    labels,
    running,
    samples,
)
from tests.support.written_input import Write, WrittenInput

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def named(found: Samples, name: str) -> set[str]:
    """Return the values of a label of the lags."""
    return {dict(key)[name] for key in found["kafka_share_group_lag"]}


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
    rows = now.evidence.lag.to_pylist()
    for column in ("lag", "start_offset", "delivery_complete_count"):
        assert found[f"kafka_share_group_{column}"] == {
            labels(group=r["group_id"], topic=r["topic"], partition=str(r["partition"])): value
            for r in rows
            if (value := r[column]) is not None
        }
    assert len(found["kafka_share_group_lag"]) < len(rows)
    ages = now.evidence.progress.column("age_ms").drop_null().to_pylist()
    seconds = found["kafka_share_group_oldest_unacked_seconds"].values()
    assert set(seconds) == {age / 1000 for age in ages}
    windows = found["kafka_share_group_window_records"]
    assert len(windows) == 3 * len(found["kafka_share_group_start_offset"])
    assert {dict(key)["state"] for key in windows} == {"available", "complete", "unknown"}
    assert found["kafka_share_group_sum_lag"][labels(group="billing")] == 2390
    assert labels(group="analytics") not in found["kafka_share_group_sum_lag"]
    assert found["kafka_share_group_unknown_lags"][labels(group="analytics")] == 3
    of_billing = [row["lag"] for row in rows if row["group_id"] == "billing"]
    assert found["kafka_share_group_max_lag"][labels(group="billing")] == max(of_billing)
    told = found["kafka_share_group_imbalance_ratio"][labels(group="billing")]
    assert told == pytest.approx(max(of_billing) * len(of_billing) / sum(of_billing))
    assert not [value for series in found.values() for value in series.values() if value < 0]
    assert found["kafka_share_group_last_success_timestamp_seconds"] == {(): 1_000.0}
    assert found["kafka_share_group_collect_duration_seconds"] == {(): 0.5}
    as_of = now.evidence.as_of.timestamp()
    assert found["kafka_share_group_as_of_timestamp_seconds"] == {(): as_of}


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
    assert named(scrape(now), "group") == set(shown.values())


def test_names_of_groups_are_hostile_text() -> None:
    names = ['a"b', "a\\b", "a\nb", "ä 日本", "{group}", "a,b=c"]
    now = gathered(WrittenInput([Write(600, 6600, group=name) for name in names]))
    _, _, text = ask(application(lambda: now), "/metrics")
    for found in (scrape(now), samples(text.decode(), text_families)):
        assert named(found, "group") == set(names)
    for name in names:
        assert json.loads(ask(application(lambda: now), f"/keda/{name}")[2])["group"] == name


def test_duplicates_and_unnamed_rows_are_left_out() -> None:
    writes = [Write(600, 6600), Write(600, 6600, partition=1)]
    now = gathered(WrittenInput(writes, partitions_of_topic=2))
    assert now.evidence is not None
    lag = now.evidence.lag
    twice = replace(now.evidence, lag=pa.concat_tables([lag, lag.slice(0, 1)]))
    assert named(scrape(Gathered(twice)), "partition") == {"1"}
    nameless = replace(now.evidence, lag=with_column(lag, "topic", [None, None]))
    assert "kafka_share_group_lag" not in scrape(Gathered(nameless))


def test_nothing_at_all_is_valid_too() -> None:
    text = ask(application(lambda: Gathered(None)), "/metrics", accept=OPENMETRICS)[2].decode()
    assert text.endswith("# EOF\n")
    assert samples(text) == {"kafka_share_group_collect_attempts_total": {(): 0}}
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
    return engines.gather(WrittenInput([Write(600, start)]), "local")


def scraped(port: int) -> Samples:
    status, text = get(port, "/metrics", {"Accept": OPENMETRICS})
    assert status == 200
    return samples(text.decode())


def test_who_asks_never_waits_for_the_cluster() -> None:
    cluster = Cluster()
    with gathering(cluster.gather, every=0.001) as result, running(result) as port:
        assert cluster.asked.acquire(timeout=30)
        # The first request is on its way, and has no answer.
        begun = time.monotonic()
        assert scraped(port) == {"kafka_share_group_collect_attempts_total": {(): 0}}
        status, headers, text = ask(application(result), "/keda/billing")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert json.loads(text) == {"error": "nothing has been collected yet; try again"}
        assert time.monotonic() - begun < 15  # the cluster does not answer before it may

        cluster.answers.put(evidence_of(6600))
        assert cluster.asked.acquire(timeout=30)
        # It has answered once, and is being asked again.
        begun = time.monotonic()
        for _ in range(3):
            found = scraped(port)
            assert found["kafka_share_group_sum_lag"] == {labels(group="billing"): 600}
            assert found["kafka_share_group_collect_attempts_total"] == {(): 1}
            assert json.loads(get(port, "/keda/billing")[1])["lag"] == 600
        assert time.monotonic() - begun < 15  # the cluster does not answer before it may
        succeeded = found["kafka_share_group_last_success_timestamp_seconds"]

        cluster.answers.put(BrokerUnreachableError("no broker answered at secret-host:9092"))
        assert cluster.asked.acquire(timeout=30)
        failed = get(port, "/metrics", {"Accept": OPENMETRICS})[1].decode()
        found = scraped(port)
        assert "kafka_share_group_lag" not in found  # an autoscaler holds still
        errors = found["kafka_share_group_collect_errors_total"]
        assert errors == {labels(kind="BrokerUnreachableError"): 1}
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
        app = application(result)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: ask(app, "/metrics")[2], range(8)))
        assert len({id(answer) for answer in answers}) == 1  # nor is it written more than once
    assert len(asked) == 1
    asked.clear()
    with gathering(gather, every=0.05) as result:
        until(result, 4)
    assert min(later - earlier for earlier, later in pairwise(asked)) >= 0.05


def test_numbers_from_before_the_machine_slept_are_not_shown() -> None:
    """A clock that stands still while it sleeps does not say that the result is old."""
    evidence = evidence_of(6600)
    with gathering(lambda: evidence, every=60) as result:
        now = until(result, 1)
        assert now.evidence is evidence
        awake = time.time()
        with patch.object(time, "time", lambda: awake + 8 * 3600):
            assert (result().evidence, result().succeeded) == (None, now.succeeded)
            assert ask(application(result), "/keda/billing")[0] == 503
        assert result().evidence is evidence


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
            lag = 600 + 100 * attempts
            assert found["kafka_share_group_sum_lag"] == {labels(group="billing"): lag}
        cluster.over.set()


def test_gathering_ends_with_its_context() -> None:
    def threads() -> int:
        return [thread.name for thread in threading.enumerate()].count("sharelag-gathering")

    begun = time.monotonic()
    with gathering(lambda: evidence_of(6600), every=3600) as result:
        until(result, 1)
        assert threads() == 1
    assert threads() == 0  # also while it waits for the next time
    assert time.monotonic() - begun < 30
    cluster = Cluster()
    with gathering(cluster.gather, every=3600) as result:
        assert cluster.asked.acquire(timeout=30)
        threading.Timer(0.2, cluster.over.set).start()  # the answer comes when nobody wants it
    assert (threads(), result().attempts) == (0, 1)


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
        assert scraped(port)["kafka_share_group_sum_lag"] == {labels(group="a/b c"): 600}
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
        assert (get(port, "/livez", method="POST")[0], get(port, "/livez/")[0]) == (401, 401)


SERVE = ("export", "serve", "--capture", "demo", "--token-file")


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (None, "No such file"), (b"\xff", "not UTF-8")]
)
def test_a_file_without_one_is_refused(content: bytes | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    assert said in refused(*SERVE, str(tmp_path / "token"))


def test_the_token_of_a_file_is_the_one_required(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("file-token\n")
    answer = sharelag(*SERVE, str(tmp_path / "token"), env={"SHARELAG_TOKEN": "s3cret-token"})
    assert (answer.returncode, "not both" in answer.stderr) == (2, True)
    assert "-token\n" not in answer.stderr
    used: list[str | None] = []

    def instead(gathered: Any, host: str, port: int, token: str | None) -> None:
        used.append(token)
        raise KeyboardInterrupt

    with patch("sharelag.monitoring.exports.server", instead):
        answer = sharelag(*SERVE, str(tmp_path / "token"))
    assert (used, answer.returncode) == (["file-token"], 0)


def test_only_this_machine_without_a_token() -> None:
    here = ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost")
    addresses = ("0.0.0.0", "::", "10.0.0.1", "")
    others = ("example.com", "localhost.example.com", "127.0.0.1.example.com")
    for host in (*here, *addresses, *others):
        assert is_loopback(host) == (host in here), host
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
    assert result in refused("export", *arguments, code=2)


def test_serving_until_a_signal_ends_it() -> None:
    command = [sys.executable, "-c", "from sharelag.cli import main; main()", "export", "serve"]
    command += ["--port", "0", "--capture", str(SCENARIOS / "poison")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
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
    assert "set a token" in refused(*SERVE[:-1], "--host", "0.0.0.0")


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


def test_what_a_killed_export_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    names = {"old": ".20261121T031000.000Z-abcd1234", "young": ".20261121T031000.000Z-abcd1235"}
    names |= {"of others": ".20261121T031000.000Z-abcd1236"}
    for name in names.values():
        (tmp_path / name / "new").mkdir(parents=True)
        (tmp_path / name / "new" / "lag.parquet").write_bytes(b"half")
    (tmp_path / names["of others"] / "notes.txt").write_text("mine")
    for old in (names["old"], names["of others"]):
        for path in (*(tmp_path / old).rglob("*"), tmp_path / old):
            os.utime(path, (0, 0))
    done = sharelag("export", "--to", "parquet", "--out", str(tmp_path), "--capture", str(CAPTURE))
    assert done.returncode == 0
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(".")}
    assert left == {names["young"], names["of others"]}
