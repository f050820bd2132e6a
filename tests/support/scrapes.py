"""Ask the application that exports metrics, with a network and without; samples of its answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)

from sharelag.engine import engines
from sharelag.monitoring.exports import Gathered, server
from tests.support.chapters import CAPTURE


def gathered(source: Any) -> Gathered:
    return Gathered(engines.gather(source, "local"), 0.5, 1_000.0)


def ask(
    app: Any, path: str, method: str = "GET", query: str = "", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """What the application answers, without a network."""
    received: list[Any] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path.encode().decode("latin-1")}
    environ["QUERY_STRING"] = query
    environ |= {"HTTP_HOST": "127.0.0.1:9308"} | {
        f"HTTP_{name.upper()}": value for name, value in headers.items()
    }
    body = b"".join(app(environ, lambda status, pairs: received.extend([status, dict(pairs)])))
    return int(received[0].split()[0]), received[1], body


@contextmanager
def running(app_source: Any, token: str | None = None) -> Iterator[int]:
    with server(app_source, "127.0.0.1", 0, token) as bound:
        thread = threading.Thread(target=bound.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield bound.server_port
        finally:
            bound.shutdown()
            thread.join()


EXAMPLES = CAPTURE.parents[1] / "examples"
SCENARIOS = CAPTURE.parent / "scenarios"
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


def labels(**pairs: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pairs.items()))
