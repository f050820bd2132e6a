"""Metrics of share groups and of their collection for Prometheus and KEDA, and their server.

An unknown value is a missing series, because -1 and 0 would be added to other numbers.

A background thread collects the metrics at a fixed interval, so requests are cheap and never wait.
Without a token the server answers requests from this machine only, and only for a loopback host
name, so that no web page opened on it can read the numbers by DNS rebinding. Errors of the cluster
go to the log, never into a response.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import json
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, TypeAlias
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import numpy as np
import pyarrow.compute as pc
from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from sharelag.durations import parse_duration
from sharelag.errors import InputError, ShareLagError
from sharelag.metrics.causes import count_stuck
from sharelag.metrics.causes.inputs import Bools, CauseInputs, Floats
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.imbalance import imbalance_arrow
from sharelag.metrics.lag import rollup_arrow
from sharelag.model import iso
from sharelag.schemas import SCHEMA_VERSION, SHARE_PARTITION
from sharelag.tables.arrow import keys
from sharelag.tables.words import label
from sharelag.whatif.horizon import members_wanted

_LOG = logging.getLogger(__name__)
#: Seconds to wait at exit for a running collection: a client library cannot be interrupted.
_GRACE = 10.0
#: A result expires after this multiple of the time for a collection and the wait after it, and not
#: before these seconds: metrics disappear while a cluster does not answer.
_SHOWN_TIMES, _SHOWN_SECONDS = 3.0, 10.0
_LABELS = ("group", "topic", "partition")
_PREFIX = "kafka_share_group_"
#: Metrics of share partitions by name: the prefix and the column of their numbers; and help.
_LAG = {
    f"{_PREFIX}lag": "End offset - start offset - delivery complete count (KIP-1226).",
    f"{_PREFIX}start_offset": "The share-partition start offset, as persisted.",
    f"{_PREFIX}delivery_complete_count": "Records completed at or after the start offset, as "
    "persisted.",
}
#: Values of the label `state`, and the columns of their numbers.
_WINDOW = (
    ("available", "window_available"),
    ("unknown", "window_unknown"),
    ("complete", "window_complete"),
)
#: Metrics of each group: name, help, key of `scaling`.
_GROUP = (
    ("kafka_share_group_sum_lag", "Total lag of the share partitions of the group.", "lag"),
    (
        "kafka_share_group_sum_lag_excluding_stuck",
        "Total lag, excluding what more consumers cannot finish, such as records that always fail.",
        "lag_excluding_stuck",
    ),
    (
        "kafka_share_group_unknown_lags",
        "Share partitions of the group whose lag is unknown.",
        "unknown_lags",
    ),
    ("kafka_share_group_members", "Members of the group, by its own records.", "members"),
)


def scaling(evidence: Evidence, patience: timedelta | None = None) -> dict[str, dict[str, Any]]:
    """Compute the numbers for an autoscaler, by group.

    Offsets that have not moved for ``patience`` are stuck. The numbers are ``lag``,
    ``lag_excluding_stuck`` (offsets), ``age_seconds`` (of the oldest unfinished record),
    ``members``, ``unknown_lags`` and ``as_of``. An unknown number is None, and so is a sum with an
    unknown part: an autoscaler then does nothing, unlike at 0. Share partitions that were never
    fetched have no lag, as in Kafka's own command; here they count with the records that wait
    there, if known.
    """
    facts = CauseInputs.of(evidence, patience)
    groups, first, of = np.unique(facts.groups.astype(str), return_index=True, return_inverse=True)
    lag = facts.left
    unknown = np.bincount(of, np.isnan(facts.lag("lag")))
    is_known = np.bincount(of, np.isnan(lag)) == 0
    sums = np.bincount(of, np.nan_to_num(lag))
    left = sums - np.bincount(of, count_stuck(facts))
    members, age = facts.members[first], np.full(len(groups), -np.inf)
    # An unknown age may be the greatest.
    np.maximum.at(age, of, np.where(np.isnan(facts.ages), np.inf, facts.ages))
    has_left, has_age = is_known & (not evidence.lag_only), is_known & np.isfinite(age)
    return {
        str(group): {
            "group": str(group),
            "lag": int(sums[place]) if is_known[place] else None,
            "lag_excluding_stuck": int(left[place]) if has_left[place] else None,
            "age_seconds": float(age[place]) / 1000 if has_age[place] else None,
            "members": None if np.isnan(members[place]) else int(members[place]),
            "unknown_lags": int(unknown[place]),
            "as_of": iso(evidence.as_of),
        }
        for place, group in enumerate(groups)
    }


def consumers(numbers: Mapping[str, Any], target: float) -> int | None:
    """Return how many consumers a group's lag requires at ``target`` offsets each, if known."""
    lag = numbers["lag_excluding_stuck"]
    return None if lag is None else math.ceil(lag / target)


@dataclass(frozen=True)
class Gathered:
    """The latest result, and statistics of the collection."""

    evidence: Evidence | None  # None: the last attempt failed, or there was none yet
    seconds: float | None = None  # duration of the last success
    succeeded: float | None = None  # time of the last success, in seconds since 1970
    errors: Mapping[str, int] = field(default_factory=dict)  # by kind, since the start
    attempts: int = 0  # since the start
    # The rendered metrics, by content type.
    texts: dict[str, bytes] = field(default_factory=dict, compare=False)

    @cached_property
    def groups(self) -> dict[str, dict[str, Any]]:
        """The numbers of each group (see `scaling`), computed once per result."""
        return {} if self.evidence is None else scaling(self.evidence)


@contextmanager
def gathering(
    gather: Callable[[], Evidence],
    every: float,
    prepare: Callable[[Gathered, Gathered], None] | None = None,
) -> Iterator[Callable[[], Gathered]]:
    """Collect every few seconds in a background thread until the end of the context.

    Errors of ``gather`` are counted and logged, and never sent to clients. ``prepare`` is called
    with a result and the previous one, for work that requests would otherwise wait for. Yield a
    function that returns the latest result at once, even during a collection; without its numbers
    if the next one is long overdue.
    """
    last = old = Gathered(None)
    since = _read_clocks()
    ended = threading.Event()

    def work() -> None:
        nonlocal last, since
        while not ended.is_set():
            found = _ask(gather, last, prepare)
            since = _read_clocks()
            last = found
            ended.wait(every)

    def latest() -> Gathered:
        nonlocal old
        now = last
        shown = max(_SHOWN_SECONDS, _SHOWN_TIMES * (every + (now.seconds or 0.0)))
        if now.evidence is None or (_read_clocks() - since).max() < shown:
            return now
        if old.succeeded != now.succeeded:  # keep one object per result, to render it once
            old = replace(now, evidence=None, texts={})
        return old

    thread = threading.Thread(target=work, name="sharelag-gathering", daemon=True)
    thread.start()
    try:
        yield latest
    finally:
        ended.set()
        thread.join(_GRACE)


def _read_clocks() -> Floats:
    """Return the seconds of both clocks: one stops while the machine sleeps, one can be set."""
    return np.array([time.monotonic(), time.time()])


def _ask(
    gather: Callable[[], Evidence],
    before: Gathered,
    prepare: Callable[[Gathered, Gathered], None] | None,
) -> Gathered:
    started = time.monotonic()
    attempts = before.attempts + 1
    try:
        evidence = gather()
        found = Gathered(evidence, time.monotonic() - started, time.time(), before.errors, attempts)
        _ = found.groups  # compute now, so that no request waits for it
        if prepare:
            prepare(found, before)
    except Exception as error:  # keep the server running; its metrics count the error
        kind = type(error).__name__ if isinstance(error, ShareLagError) else "unexpected"
        _LOG.warning("collection failed: %s: %s", type(error).__name__, error)
        errors = {**before.errors, kind: before.errors.get(kind, 0) + 1}
        return Gathered(None, before.seconds, before.succeeded, errors, attempts)
    return found


class ShareGroupCollector(Collector):
    """A collector for the official client library, of the latest result of `gathering`."""

    def __init__(self, gathered: Callable[[], Gathered]) -> None:
        self._gathered = gathered

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics; those of share groups only if the last collection succeeded."""
        gathered = self._gathered()
        if gathered.evidence is not None:
            yield from _share_partitions(gathered.evidence)
            yield from _groups(gathered.evidence, gathered.groups)
        yield from _of_gathering(gathered)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry would run a collection just for the names."""
        return []


def registry_of(gathered: Callable[[], Gathered]) -> CollectorRegistry:
    """Return a registry with these metrics only, without those of this process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ShareGroupCollector(gathered))
    return registry


def write_textfile(gathered: Gathered, file: Path) -> None:
    """Write the metrics for node_exporter's textfile collector, atomically."""
    try:
        write_to_textfile(str(file), registry_of(lambda: gathered))
    except OSError as error:
        raise InputError(
            f"cannot write {file} ({error.strerror}): choose a file in an existing directory"
        ) from error


def _share_partitions(evidence: Evidence) -> Iterator[Metric]:
    facts = CauseInputs.of(evidence)
    chosen = _find_unique_names(evidence)
    labels = [
        [str(row["group_id"]), str(row["topic"]), str(row["partition"])]
        for row in evidence.lag.select(["group_id", "topic", "partition"]).to_pylist()
    ]
    for name, words in _LAG.items():
        numbers = facts.lag(name.removeprefix(_PREFIX))
        yield _gauge(name, words, _LABELS, labels, numbers, chosen)
    words = "Age of the oldest unfinished record."
    age = facts.progress("age_ms") / 1000
    yield _gauge("kafka_share_group_oldest_unacked_seconds", words, _LABELS, labels, age, chosen)
    words = (
        "Records in the window: available again, complete, "
        "or unknown (acquired, or their state never persisted)."
    )
    names = [*_LABELS, "state"]
    family = GaugeMetricFamily("kafka_share_group_window_records", words, labels=names)
    for state, column in _WINDOW:
        _add(family, [[*one, state] for one in labels], facts.lag(column), chosen)
    yield family


def _groups(evidence: Evidence, groups: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    left = CauseInputs.of(evidence).left_lag
    greatest = {row["group_id"]: row["max_lag"] for row in rollup_arrow(left, "group").to_pylist()}
    even = {
        row["group_id"]: row["max_mean"]
        for row in imbalance_arrow(left, by="partition").to_pylist()
        if row["topic_id"] is None
        and row["measure"] == "lag"
        and row["max_mean"] is not None
        and not row["unknown"]
    }
    found = [
        *((name, words, [one[key] for one in groups.values()]) for name, words, key in _GROUP),
        (
            "kafka_share_group_max_lag",
            "The largest lag of a share partition.",
            [None if one["lag"] is None else greatest[group] for group, one in groups.items()],
        ),
        (
            "kafka_share_group_imbalance_ratio",
            "The largest lag of a share partition divided by the group's mean: 1 is even.",
            [even.get(group) for group in groups],
        ),
    ]
    labels, everyone = [[group] for group in groups], np.ones(len(groups), bool)
    for name, words, values in found:
        known = np.array(values, float)  # None is NaN
        yield _gauge(name, words, ["group"], labels, known, everyone)


def _of_gathering(gathered: Gathered) -> Iterator[Metric]:
    if gathered.evidence is not None:
        yield GaugeMetricFamily(
            "kafka_share_group_as_of_timestamp_seconds",
            "The moment that the metrics of share groups describe.",
            gathered.evidence.as_of.timestamp(),
        )
    # None has no value yet.
    yield GaugeMetricFamily(
        "kafka_share_group_last_success_timestamp_seconds",
        "Time of the last collection.",
        gathered.succeeded,
    )
    yield GaugeMetricFamily(
        "kafka_share_group_collect_duration_seconds",
        "Duration of the last collection.",
        gathered.seconds,
    )
    yield CounterMetricFamily(
        "kafka_share_group_collect_attempts",
        "Attempted collections since the start.",
        gathered.attempts,
    )
    errors = CounterMetricFamily(
        "kafka_share_group_collect_errors",
        "Failed collections since the start, by kind of error.",
        labels=["kind"],
    )
    for kind, count in sorted(gathered.errors.items()):
        errors.add_metric([kind], count)
    yield errors


def _find_unique_names(evidence: Evidence) -> Bools:
    """Select the share partitions with a known topic name and only one state."""
    codes = keys(evidence.lag, SHARE_PARTITION).dictionary_encode().indices.to_numpy()
    has_topic = pc.is_valid(evidence.lag.column("topic")).to_numpy()
    times = np.bincount(codes, minlength=1)
    return np.asarray(has_topic & (times[codes] == 1), bool)


def _gauge(
    name: str,
    words: str,
    names: Iterable[str],
    labels: list[list[str]],
    values: Floats,
    chosen: Bools,
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=list(names))
    _add(family, labels, values, chosen)
    return family


def _add(family: GaugeMetricFamily, labels: list[list[str]], values: Floats, chosen: Bools) -> None:
    for place in np.flatnonzero(chosen & ~np.isnan(values)).tolist():
        family.add_metric([label(one) for one in labels[place]], float(values[place]))


Environ: TypeAlias = dict[str, Any]
Reply: TypeAlias = tuple[HTTPStatus, str, bytes]
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
#: Seconds after which a client without an answer should retry.
_RETRY = 5
#: Path that shows that the server is running.
_PROBE = "/livez"
#: Maximum number of connections, with a thread each; a monitoring system uses one or two.
_MOST_CONNECTIONS = 256
#: Maximum number of digits of a target.
_DIGITS = 18


def server(
    gathered: Callable[[], Gathered], host: str, port: int, token: str | None = None
) -> WSGIServer:
    """Bind a server; ``serve_forever`` runs it.

    ``gathered`` returns the latest result at once, as `gathering` yields it. Port 0 selects a free
    port; ``server_port`` is the one in use. A token is required of every client (``Authorization:
    Bearer TOKEN``), and for any address that other machines can reach.
    """
    if not token and not is_loopback(host):
        raise InputError(
            f"other machines can reach {host}: set a token (SHARELAG_TOKEN), or listen on 127.0.0.1"
        )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        kind = type("_Server", (_Server,), {"address_family": family})
        return make_server(host, port, application(gathered, token), kind, _Handler)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host} port {port} ({error.strerror}): choose another address"
        ) from error


def application(
    gathered: Callable[[], Gathered], token: str | None = None
) -> Callable[..., Iterable[bytes]]:
    """Build the server's WSGI application, to run it in another server."""
    lock = threading.Lock()

    def metrics(accept: str) -> Reply:
        """Render them once per result and format: there may be 100,000 lines."""
        encode, kind = choose_encoder(accept)
        now = gathered()
        with lock:
            if kind not in now.texts:
                now.texts[kind] = encode(registry_of(lambda: now))
        return HTTPStatus.OK, kind, now.texts[kind]

    def reply(environ: Environ) -> Reply:
        # A kubelet has no token, and this response reveals nothing about the cluster. Whether the
        # cluster can be read is a metric: a server that is not ready would hide the failure.
        if environ.get("PATH_INFO") == _PROBE and environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return HTTPStatus.OK, _TEXT, b"ok\n"
        if token and not _is_allowed(environ, token):
            wrong = b"missing or wrong token: send Authorization: Bearer TOKEN\n"
            return HTTPStatus.UNAUTHORIZED, _TEXT, wrong
        if not token and not is_loopback(_host(environ)):
            return HTTPStatus.FORBIDDEN, _TEXT, b"without a token, use localhost or 127.0.0.1\n"
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"method not allowed: use GET or HEAD\n"
        # WSGI passes the bytes of a path as latin-1.
        path = environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")
        if path == "/metrics":
            return metrics(environ.get("HTTP_ACCEPT", ""))
        if path.startswith("/keda/"):
            return _keda(gathered(), path.removeprefix("/keda/"), environ.get("QUERY_STRING", ""))
        return HTTPStatus.NOT_FOUND, _TEXT, b"not found: use /metrics or /keda/GROUP\n"

    def answer(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            status, kind, body = reply(environ)
        except Exception:  # a 500 for the client; the log has the error
            _LOG.exception("a request could not be answered")
            raise
        headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
        headers += [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]
        if status is HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", "Bearer"))
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append(("Retry-After", str(_RETRY)))
        start_response(f"{status.value} {status.phrase}", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    return answer


def write_ahead(now: Gathered, before: Gathered) -> None:
    """Render the metrics in advance, in the formats that were requested of the previous result."""
    for kind in list(before.texts):
        now.texts[kind] = choose_encoder(kind)[0](registry_of(lambda: now))


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _keda(gathered: Gathered, group: str, query: str) -> Reply:
    """Return the response with one group's numbers.

    ``?target=100`` adds the consumers needed at 100 offsets each, ``?goal=30s`` the members that
    keep records younger than that.
    """
    if gathered.evidence is None:
        failed = "the cluster could not be read; the server's log says why"
        why = failed if gathered.attempts else "nothing has been collected yet; try again"
        return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": why})
    numbers = gathered.groups.get(group)
    if numbers is None:
        return _json(HTTPStatus.NOT_FOUND, {"error": "unknown share group"})
    given = parse_qs(query)
    if goal := given.get("goal"):
        if not _is_goal(goal[0]):
            words = "goal must be a duration such as 30s"
            return _json(HTTPStatus.BAD_REQUEST, {"error": words})
        numbers = numbers | _want_members(gathered.evidence, group, goal[0])
    if target := given.get("target"):
        if not target[0].isdecimal() or len(target[0]) > _DIGITS or not int(target[0]):
            words = "target must be a positive number of offsets per consumer"
            return _json(HTTPStatus.BAD_REQUEST, {"error": words})
        numbers = numbers | {"consumers": consumers(numbers, int(target[0]))}
    return _json(HTTPStatus.OK, {"schema_version": SCHEMA_VERSION} | numbers)


def _is_goal(text: str) -> bool:
    try:
        return len(text) <= _DIGITS and parse_duration(text) > timedelta()
    except InputError:
        return False


def _want_members(evidence: Evidence, group: str, goal: str) -> dict[str, Any]:
    """Return how many members meet a goal, and why; null if nothing is known of the topics."""
    try:
        found = members_wanted(evidence, group, goal)
    except InputError as error:
        return {"members_wanted": None, "members_wanted_reason": str(error)}
    return {"members_wanted": found.members, "members_wanted_reason": found.reason}


def _json(status: HTTPStatus, body: dict[str, Any]) -> Reply:
    return status, _JSON, json.dumps(body).encode() + b"\n"


def _is_allowed(environ: Environ, token: str) -> bool:
    scheme, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    same = hmac.compare_digest(given.strip().encode("latin-1"), token.encode())
    return same and scheme.lower() == "bearer"


def _host(environ: Environ) -> str:
    """Return the requested host name, without the port."""
    host: str = environ.get("HTTP_HOST", "")
    name, _, port = host.rpartition(":")
    return name if port.isdecimal() else host


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a thread per connection; at the limit, it closes the oldest connection.

    A scrape takes milliseconds, so the oldest connections are those of slow clients.
    """

    daemon_threads = True
    # Pending connections; with five, the sixth would retry a second later.
    request_queue_size = 128

    def __init__(self, *given: Any, **named: Any) -> None:
        self._open: dict[Any, None] = {}  # sockets, oldest first
        self._lock = threading.Lock()
        super().__init__(*given, **named)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= _MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # it may have just ended
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: Any) -> None:
        """Log no traceback: clients that disconnect or send garbage would fill the log."""
        _LOG.debug("a client's request failed", exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = 30  # seconds for a client to send its request

    def get_stderr(self) -> Any:
        """Discard the traceback that wsgiref writes for each client that reads too slowly."""
        return io.StringIO()

    def log_message(self, *_: object) -> None:
        """Log nothing, because a path may contain anything."""
