"""HTTP server for Prometheus and KEDA: metrics, a group's numbers, and nothing else.

Without a token only this machine is answered, and only under its own name, so that no page in a
browser on it can ask for another site. What went wrong with the cluster is in the log, not in an
answer.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any, TypeAlias
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client.exposition import choose_encoder

from sharelag.errors import InputError
from sharelag.monitoring.exports.gathered import Gathered
from sharelag.monitoring.exports.metrics import registry_of
from sharelag.monitoring.exports.scaling import consumers

Environ: TypeAlias = dict[str, Any]
Reply: TypeAlias = tuple[HTTPStatus, str, bytes]
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
#: Seconds after which who got nothing may ask again.
_RETRY = 5
#: Digits of a target that is a number of offsets.
_DIGITS = 18


def server(
    gathered: Callable[[], Gathered], host: str, port: int, token: str | None = None
) -> WSGIServer:
    """Bind a server; ``serve_forever`` runs it.

    Parameters
    ----------
    gathered : callable
        What is known now, such as `sharelag.monitoring.exports.gathered.gathering` tells it; has to
        answer at once.
    host : str
        The address to listen on.
    port : int
        0 takes one that is free; ``server_port`` tells which.
    token : str, optional
        What a client has to bring along (``Authorization: Bearer TOKEN``).

    Raises
    ------
    InputError
        When the address is not this machine's own and there is no token, or cannot be listened on.
    """
    if not token and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from elsewhere: set a token (SHARELAG_TOKEN), or listen on 127.0.0.1"
        )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        kind = type("_Server", (_Server,), {"address_family": family})
        return make_server(host, port, application(gathered, token), kind, _Handler)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host} port {port} ({error.strerror}): choose another"
        ) from error


def application(
    gathered: Callable[[], Gathered], token: str | None = None
) -> Callable[..., Iterable[bytes]]:
    """The same as a WSGI application, for a server of one's own."""
    metrics = _Metrics(gathered)

    def reply(environ: Environ) -> Reply:
        if token and not _is_allowed(environ, token):
            return (
                HTTPStatus.UNAUTHORIZED,
                _TEXT,
                b"bring the token along: Authorization: Bearer TOKEN\n",
            )
        if not token and not is_loopback(_host(environ)):
            return HTTPStatus.FORBIDDEN, _TEXT, b"only this machine is answered, by its own name\n"
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"there is nothing to change here\n"
        # WSGI hands the bytes of a path over as latin-1.
        path = environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")
        if path == "/metrics":
            return metrics(environ.get("HTTP_ACCEPT", ""))
        if path.startswith("/keda/"):
            return _keda(gathered(), path.removeprefix("/keda/"), environ.get("QUERY_STRING", ""))
        return HTTPStatus.NOT_FOUND, _TEXT, b"/metrics for Prometheus, /keda/GROUP for KEDA\n"

    def answer(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, kind, body = reply(environ)
        headers = [
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ]
        headers.append(("X-Content-Type-Options", "nosniff"))
        if status is HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", "Bearer"))
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append(("Retry-After", str(_RETRY)))
        start_response(f"{status.value} {status.phrase}", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    return answer


def write_ahead(now: Gathered, before: Gathered) -> None:
    """Write the metrics in the formats that were asked for of the result before, so that nobody waits for it."""
    for kind in list(before.texts):
        now.texts[kind] = choose_encoder(kind)[0](registry_of(lambda: now))


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class _Metrics:
    """The metrics as text, written once for each gathering and format: there may be 100,000 lines."""

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
    """One group's numbers; ``?target=100`` also tells how many consumers that is, at so many offsets each."""
    if gathered.evidence is None:
        tried = "the cluster could not be asked; the log says why"
        why = tried if gathered.attempts else "nothing has been gathered yet; ask again"
        return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": why})
    told = gathered.groups.get(group)
    if told is None:
        return _json(HTTPStatus.NOT_FOUND, {"error": "there is no such share group"})
    target = parse_qs(query).get("target")
    if target:
        if not target[0].isdecimal() or len(target[0]) > _DIGITS or not int(target[0]):
            return _json(
                HTTPStatus.BAD_REQUEST, {"error": "target is a number of offsets for each consumer"}
            )
        told = told | {"consumers": consumers(told, int(target[0]))}
    return _json(HTTPStatus.OK, told)


def _json(status: HTTPStatus, told: dict[str, Any]) -> Reply:
    return status, _JSON, json.dumps(told).encode() + b"\n"


def _is_allowed(environ: Environ, token: str) -> bool:
    scheme, _, brought = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    same = hmac.compare_digest(brought.strip().encode("latin-1"), token.encode())
    return same and scheme.lower() == "bearer"


def _host(environ: Environ) -> str:
    """The name that the client asked for, without the port."""
    host: str = environ.get("HTTP_HOST", "")
    return (
        host.rpartition(":")[0]
        if host.rpartition(":")[2].isdecimal() and not host.endswith("]")
        else host
    )


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = 30  # seconds that a client may take to say what it wants

    def log_message(self, *_: object) -> None:
        """Say nothing: a path can hold whatever somebody sends."""
