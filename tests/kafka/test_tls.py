"""Listeners with TLS, certificates of clients, and tokens: what works, and what is said if not."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.command import sharelag
from tests.support.kafka.access import settings_file
from tests.support.kafka.broker import USERS, KafkaBroker
from tests.support.kafka.certificates import LISTENERS, make_authority, make_certificate
from tests.support.reliability import Inject

#: Of the group `billing`.
LAG = 25
SECRETS = {"password": USERS["admin"], "key": "key-secret-1f7a", "client": "client-secret-90be"}
#: In words, by case of what is wrong.
FAULTS = {
    "unknown authority": "the authority of a broker's certificate is not known",
    "EXPIRED": "the certificate of a broker has expired",
    "ELSEWHERE": "the certificate of a broker is of another host",
    "MUTUAL": "a broker wants a client's certificate, and there is none",
    "PASSWORDS": "a password is wrong",
}
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def folder(secured: KafkaBroker, certificates: Path) -> Path:
    """Certificates, also that of a client and that of an authority that nobody knows."""
    make_authority(certificates, "stranger")
    make_certificate(certificates, "client", "DNS:client.example", password=SECRETS["key"])
    return certificates


def _lag(
    broker: KafkaBroker, folder: Path, listener: str, *more: str, **settings: str
) -> CompletedProcess[str]:
    """Ask for the lag by a listener, with a file of settings as for Kafka's commands."""
    given = {
        "security.protocol": LISTENERS[listener],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    } | {name.replace("_", "."): value for name, value in settings.items()}
    config = ("--command-config", settings_file(folder, given))
    server = ("--bootstrap-server", broker.address(listener), "--timeout", "60000")
    return sharelag("lag", "--group", "billing", *server, *config, "-o", "json", *more)


def _client(folder: Path) -> dict[str, str]:
    key = {"ssl_keystore_type": "PEM", "ssl_key_password": SECRETS["key"]}
    return key | {"ssl_keystore_location": str(folder / "client.pem")}


def _login(password: str) -> dict[str, str]:
    text = f'{_MODULE} required username="admin" password="{password}";'
    return {"sasl_mechanism": "PLAIN", "sasl_jaas_config": text}


def _tokens(endpoint: str, secret: str) -> dict[str, str]:
    return {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": endpoint,
        "sasl_login_callback_handler_class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl_jaas_config": f'{LOGIN} required clientId="admin" clientSecret="{secret}";',
    }


@pytest.mark.parametrize("listener", ["GOOD", "MUTUAL", "PASSWORDS"])
def test_who_has_what_it_wants_gets_lag(secured: KafkaBroker, folder: Path, listener: str) -> None:
    more = {"MUTUAL": _client(folder), "PASSWORDS": _login(USERS["admin"])}.get(listener, {})
    done = _lag(secured, folder, listener, "-v", **more)
    assert done.returncode == 0, done.stderr
    assert sum(json.loads(line)["lag"] for line in done.stdout.splitlines()) == LAG
    assert not [one for one in SECRETS.values() if one in done.stdout + done.stderr]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("unknown authority", "ssl.truststore.location"),
        ("EXPIRED", "(certificate has expired): the broker needs a new one"),
        ("ELSEWHERE", "use an address that the certificate has"),
        ("MUTUAL", "or requires one: set ssl.keystore.location"),
        ("PASSWORDS", "check user, password"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    secured: KafkaBroker, folder: Path, injected: Inject, case: str, words: str
) -> None:
    listener = case if case in LISTENERS else "GOOD"
    other = {"ssl_truststore_location": str(folder / "stranger.pem")}
    settings = {"unknown authority": other, "PASSWORDS": _login("wrong-secret-77")}.get(case, {})
    begun = time.monotonic()
    done = _lag(secured, folder, listener, **settings)
    assert time.monotonic() - begun < 30  # the timeout is a minute: it would get no better
    (line,) = done.stderr.splitlines()
    assert words in line
    assert "wrong-secret-77" not in line
    told = {"refusals with the reason": 1}
    injected("rights", FAULTS[case], 1, told, wrong=len(done.stdout.splitlines()))
    assert (done.returncode, done.stdout) == (1, "")


def unsigned(subject: str, seconds: float) -> str:
    """Return a token of a subject that is valid for so long, less than 0: has expired.

    It is not signed, which brokers accept where their validator is Kafka's unsecured one.
    """
    now = time.time()
    claims = {"sub": subject, "iat": now - 600, "exp": now + seconds, "scope": "kafka"}
    parts = [json.dumps(one).encode() for one in ({"alg": "none", "typ": "JWT"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts), ""])


@contextmanager
def token_endpoint(secret: str, seconds: float = 3600) -> Iterator[str]:
    """Serve tokens to whoever knows a client's secret, and give the address.

    ``secret``: of the client, whose id is the subject of its tokens. ``seconds``: how long tokens
    are valid.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            scheme, _, text = self.headers.get("Authorization", "").partition(" ")
            client, _, given = base64.b64decode(text).decode().partition(":")
            is_known = scheme == "Basic" and given == secret
            body = {"access_token": unsigned(client, seconds)} if is_known else {"error": "refused"}
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            """Keep quiet: tests show what is asked."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_who_has_a_token_gets_the_lag(secured: KafkaBroker, folder: Path, injected: Inject) -> None:
    with token_endpoint(SECRETS["client"]) as endpoint:
        done = _lag(secured, folder, "TOKENS", "-v", **_tokens(endpoint, SECRETS["client"]))
    assert done.returncode == 0, done.stderr
    assert sum(json.loads(line)["lag"] for line in done.stdout.splitlines()) == LAG
    assert SECRETS["client"] not in done.stdout + done.stderr
    with token_endpoint(SECRETS["client"], seconds=-120) as endpoint:
        expired = _lag(secured, folder, "TOKENS", **_tokens(endpoint, SECRETS["client"]))
    with token_endpoint("another") as endpoint:
        refused = _lag(secured, folder, "TOKENS", **_tokens(endpoint, SECRETS["client"]))
    for wrong in (expired, refused):
        assert wrong.returncode == 1
        (line,) = wrong.stderr.splitlines()
        print(line)
        assert "no token came from sasl.oauthbearer.token.endpoint.url" in line
        assert SECRETS["client"] not in line
    told = {"refusals with the reason": 2}
    rows = (expired.stdout + refused.stdout).splitlines()
    injected("rights", "a token has expired, or is refused", 2, told, wrong=len(rows))
    assert rows == []
