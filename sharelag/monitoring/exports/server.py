"""HTTP server for Prometheus and KEDA: metrics, a group's numbers, and nothing else.

What is served is collected in the background at a fixed interval, so requests are cheap and never
wait. Without a token the server answers requests from this machine only, and only for a loopback
host name, so that no web page opened on it can read the numbers by DNS rebinding. Errors of the
cluster go to the log, never into a response.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any, TypeAlias
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client.exposition import choose_encoder

from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.exports.metrics import Gathered, consumers, registry_of
from sharelag.schemas import SCHEMA_VERSION
from sharelag.whatif.horizon import members_wanted

Environ: TypeAlias = dict[str, Any]
Reply: TypeAlias = tuple[HTTPStatus, str, bytes]
_LOG = logging.getLogger(__name__)
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
#: Seconds after which a client that got nothing should retry.
_RETRY = 5
#: Whether the server answers.
_PROBE = "/livez"
#: Connections at a time, each a thread; a monitoring system has one or two.
_MOST_CONNECTIONS = 256
#: The longest accepted target, in digits.
_DIGITS = 18


def server(
    gathered: Callable[[], Gathered], host: str, port: int, token: str | None = None
) -> WSGIServer:
    """Bind a server; ``serve_forever`` runs it.

    ``gathered`` returns the latest result at once, as
    `sharelag.monitoring.exports.metrics.gathering` yields it. Port 0 takes a free one;
    ``server_port`` is the port taken. A token is required of every client (``Authorization: Bearer
    TOKEN``), and of an address that other machines can reach.
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
    metrics = _Metrics(gathered)

    def reply(environ: Environ) -> Reply:
        # A kubelet has no token; one word says nothing of the cluster. Whether the cluster can be
        # read is a metric: a server that was not ready for it would hide the failure.
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
        except Exception:  # the client gets a 500, the log what it was
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
    """Write the metrics ahead, in the formats requested of the result before."""
    for kind in list(before.texts):
        now.texts[kind] = choose_encoder(kind)[0](registry_of(lambda: now))


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class _Metrics:
    """The metrics as text, written once per result and format: there may be 100,000 lines."""

    def __init__(self, gathered: Callable[[], Gathered]) -> None:
        self._gathered = gathered
        self._lock = threading.Lock()

    def __call__(self, accept: str) -> Reply:
        encode, kind = choose_encoder(accept)
        now = self._gathered()
        with self._lock:
            if kind not in now.texts:
                now.texts[kind] = encode(registry_of(lambda: now))
        return HTTPStatus.OK, kind, now.texts[kind]


def _keda(gathered: Gathered, group: str, query: str) -> Reply:
    """Answer with one group's numbers.

    ``?target=100`` adds the consumers at 100 offsets each, ``?goal=30s`` the members that keep
    records younger than that.
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
    """Return how many members keep a goal, and why; null where nothing is known of the topics."""
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
    """One thread a connection, and so many at most: the one that is open longest gives way.

    A scrape takes milliseconds, so that the oldest are clients that send or read slowly.
    """

    daemon_threads = True
    # connections that wait; with five, the sixth tries again a second later
    request_queue_size = 128

    def __init__(self, *given: Any, **named: Any) -> None:
        self._open: dict[Any, None] = {}  # sockets, the oldest first
        self._lock = threading.Lock()
        super().__init__(*given, **named)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= _MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # it may have ended just now
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: Any) -> None:
        """Log no traceback: clients that go away or send garbage would fill the log."""
        _LOG.debug("a client's request failed", exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = 30  # seconds that a client may take to send its request

    def get_stderr(self) -> Any:
        """Return where wsgiref writes a traceback of each client that reads too slowly: nowhere."""
        return io.StringIO()

    def log_message(self, *_: object) -> None:
        """Log nothing: a path can hold anything a client sends."""
