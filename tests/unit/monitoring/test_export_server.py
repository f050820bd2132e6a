"""The exporter without a cluster, and among clients that send garbage or never read."""

import gc
import json
import random
import socket
import struct
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

import pytest

from sharelag.engine import engines
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring import exports
from sharelag.monitoring.exports import Gathered, gathering
from tests.support.damaged_texts import damaged
from tests.support.reliability import Inject
from tests.support.scrapes import gathered, running
from tests.support.written_input import Write, WrittenInput

REQUEST = (
    b"GET /keda/billing?target=100 HTTP/1.1\r\nHost: localhost:9308\r\nAccept: text/plain\r\n"
    b"Authorization: Bearer x\r\nContent-Length: 12\r\nConnection: close\r\n\r\n"
)
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: What a scrape may take, whatever others do.
MOST_SECONDS = 1.0


def _scrape(port: int) -> tuple[float, bytes]:
    begun = time.monotonic()
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read()
    finally:
        connection.close()
    return time.monotonic() - begun, text


def _fastest(port: int) -> float:
    """Return the seconds of the fastest of five scrapes: this machine may be busy, too."""
    return min(_scrape(port)[0] for _ in range(5))


@contextmanager
def _clients(port: int, count: int, sends: bytes) -> Iterator[list[socket.socket]]:
    """Clients that have sent something, and neither send more nor read."""
    with ExitStack() as ends:
        clients = [
            ends.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            for _ in range(count)
        ]
        for client in clients:
            client.sendall(sends)
        yield clients


def _threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def _ask(port: int, sent: bytes) -> bytes:
    """Return all that the server answers to some bytes; nothing if it drops them."""
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
        suppress(OSError),  # it was closed with bytes that nobody read
    ):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        while piece := client.recv(1 << 16):
            answer += piece
    return answer


def _numbers(answer: bytes) -> dict[str, Any]:
    """Return a group's numbers of an answer; consumers depend on what was asked."""
    numbers: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    numbers.pop("consumers", None)
    return numbers


@pytest.fixture(name="now")
def _now() -> Gathered:
    return gathered(WrittenInput([Write(600, 6600)]))


def _said(captured: pytest.CaptureFixture[str]) -> list[str]:
    """Return what was said, but for Kafka clients of earlier tests whose broker has ended.

    Those of sharelag have its name in the place of the library's.
    """
    return [line for line in captured.readouterr().err.splitlines() if "|rdkafka#" not in line]


def test_garbage_is_answered_or_dropped_and_logged_nowhere(
    now: Gathered, capfd: pytest.CaptureFixture[str], cases: Any, injected: Inject
) -> None:
    count, happened, wrong = cases(40, 5000), Counter[str](), 0
    with running(lambda: now) as port:
        numbers = _numbers(_ask(port, REQUEST))
        assert numbers["lag"] == 600
        for seed in range(count):
            sent = damaged(REQUEST, random.Random(f"garbage {seed}"))
            answer = _ask(port, sent)
            assert b"Traceback" not in answer, seed
            assert b"500 " not in answer[:20], seed
            if b"200 OK" in answer[:20]:
                happened["answers"] += 1
                wrong += _numbers(answer) != numbers
            else:
                happened["requests refused, or dropped"] += 1
        assert b"kafka_share_group_sum_lag" in _scrape(port)[1]
    assert _said(capfd) == []
    injected("clients", "a damaged request to the exporter", count, happened, wrong=wrong)
    assert wrong == 0
    assert happened["answers"] > 0


def test_clients_that_misbehave_leave_nothing_in_memory(
    now: Gathered, cases: Any, injected: Inject
) -> None:
    """After them a server holds what it held before, however many there were."""
    count = cases(120, 300)

    def misbehave(first: int, last: int) -> None:
        for seed in range(first, last):
            sent = damaged(REQUEST, random.Random(f"garbage {seed}"))
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(sent + b"x" * 10_000)
        with _clients(port, 200, b"GET /met"):
            _scrape(port)
        deadline = time.monotonic() + 60
        while _threads():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        gc.collect()

    with running(lambda: now) as port:
        misbehave(0, 50)
        tracemalloc.start()
        try:
            misbehave(50, 100)
            before = tracemalloc.get_traced_memory()[0]
            misbehave(100, 100 + count)
            more = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
    assert more < 128 << 10  # noise of this process; one request has more than half a kilobyte
    what = "a damaged request to the exporter, and slow clients beside it"
    kept = {"more KiB of memory after all of them": round(more / 1024, 1)}
    injected("clients", what, count, measured=kept)


def test_clients_that_go_are_not_logged(now: Gathered, capfd: pytest.CaptureFixture[str]) -> None:
    _ = now.groups
    reset = struct.pack("ii", 1, 0)
    with running(lambda: now) as port:
        for sends in (b"GET /met", REQUEST, SCRAPE) * 30:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                client.sendall(sends)
        deadline = time.monotonic() + 30
        while _threads():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert _said(capfd) == []


@pytest.mark.parametrize("sends", [b"", b"GET /met", REQUEST[:60], b"GET /metrics HTTP/1.1\r\nX: "])
def test_200_slow_clients_slow_no_scrape(sends: bytes, now: Gathered, injected: Inject) -> None:
    with running(lambda: now) as port:
        alone = _scrape(port)[1]
        with _clients(port, 200, sends):
            seconds = _fastest(port)
            wrong = int(_scrape(port)[1] != alone)
    assert b"kafka_share_group_sum_lag" in alone
    took = {"seconds for a scrape": round(seconds, 3)}
    happened = {"scrapes like those without them": 1 - wrong}
    what = "a client that sends slowly, beside 199 others"
    injected("clients", what, 200, happened, wrong=wrong, measured=took)
    assert wrong == 0
    assert seconds < MOST_SECONDS


def test_clients_that_never_read_slow_no_scrape(now: Gathered) -> None:
    with running(lambda: now) as port:
        _scrape(port)
        for kind in now.texts:
            now.texts[kind] = b"x" * (8 << 20)
        with _clients(port, 100, SCRAPE):
            assert _fastest(port) < MOST_SECONDS


def test_thousands_of_connections_take_no_more_threads_than_are_allowed(now: Gathered) -> None:
    most = exports._MOST_CONNECTIONS
    with running(lambda: now) as port:
        with _clients(port, most + 100, b"GET /") as clients:
            assert clients[0].recv(1) == b""  # the oldest gave way
            assert _fastest(port) < MOST_SECONDS
            assert _threads() <= most + 1
        assert _fastest(port) < MOST_SECONDS


def test_numbers_end_when_the_cluster_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_SHOWN_SECONDS", 0.5)
    evidence = engines.gather(WrittenInput([Write(600, 6600)]), "local")
    hangs, calls = threading.Event(), []

    def gather() -> Evidence:
        calls.append(1)
        if len(calls) > 1:
            hangs.wait(60)
        return evidence

    with gathering(gather, every=0.01) as latest, running(latest) as port:
        try:
            deadline = time.monotonic() + 30
            while latest().attempts < 1:
                assert time.monotonic() < deadline
            assert b"kafka_share_group_sum_lag{" in _scrape(port)[1]
            succeeded = latest().succeeded
            while latest().evidence is not None:
                assert time.monotonic() < deadline
            assert latest() is latest()
            text = _scrape(port)[1]
            assert b"kafka_share_group_sum_lag{" not in text
            assert b"kafka_share_group_last_success_timestamp_seconds" in text
            assert latest().succeeded == succeeded
        finally:
            hangs.set()
        while latest().evidence is None:  # it goes on, and so do the numbers
            assert time.monotonic() < deadline
        assert b"kafka_share_group_sum_lag{" in _scrape(port)[1]
