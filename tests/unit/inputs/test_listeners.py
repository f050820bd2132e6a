"""What is said of an address at which something else answers than the settings expect."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.support.command import sharelag

Answer = Callable[[socket.socket], None]
_PLAIN = (
    "sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain."
    'PlainLoginModule required username="u" password="hunter2";\n'
)


@pytest.fixture(scope="module")
def speak_tls(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -subj /CN=b"
    subprocess.run(made.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def answer(client: socket.socket) -> None:
        with context.wrap_socket(client, server_side=True) as secure:
            secure.recv(1 << 16)

    return answer


def says(octets: bytes) -> Answer:
    """Something that answers, whatever it is asked."""

    def answer(client: socket.socket) -> None:
        client.recv(1 << 16)
        client.sendall(octets)

    return answer


@pytest.fixture
def listen() -> Iterator[Callable[[Answer], str]]:
    """A function that serves one answer to everybody, and returns its address."""
    servers: list[socket.socket] = []

    def serve(answer: Answer) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def run() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:  # the test is over
                    return
                with closing(client), suppress(OSError):
                    answer(client)

        threading.Thread(target=run, daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield serve
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def said(address: str, folder: Path, settings: str) -> str:
    file = folder / "client.properties"
    file.write_text(settings)
    arguments = ("--command-config", str(file), "--timeout", "1s")
    done = sharelag("lag", "--bootstrap-server", address, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "hunter2" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("", "speaks TLS, and security.protocol is PLAINTEXT: set it to SSL or SASL_SSL in"),
        (
            f"security.protocol=SASL_PLAINTEXT\n{_PLAIN}",
            "speaks TLS, and security.protocol is SASL_PLAINTEXT: set it to SASL_SSL in",
        ),
        ("security.protocol=SSL\n", "is not trusted (self-signed certificate): set ssl.truststore"),
    ],
)
def test_a_listener_that_speaks_tls(
    settings: str,
    words: str,
    listen: Callable[[Answer], str],
    speak_tls: Answer,
    tmp_path: Path,
) -> None:
    address = listen(speak_tls)
    found = said(address, tmp_path, settings)
    assert words in found
    assert address in found


@pytest.mark.parametrize(
    ("octets", "settings", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "", "answers 'HTTP'..., which no Kafka broker does"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "", "answers 'SSH-'..., which no Kafka broker does"),
        (b"220 mail.example ESMTP\r\n", "", "answers '220 '..., which no Kafka broker does"),
        (b"-ERR unknown command\r\n", "", "answers '-ERR'..., which no Kafka broker does"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "security.protocol=SSL\n", "no broker answered at"),
        (b"", "", "no broker answered at"),
    ],
)
def test_what_answers_is_no_broker(
    octets: bytes,
    settings: str,
    words: str,
    listen: Callable[[Answer], str],
    tmp_path: Path,
) -> None:
    found = said(listen(says(octets)), tmp_path, settings)
    assert words in found
    assert "receive.message.max.bytes" not in found
    assert "brokers are down" not in found


def test_a_name_that_nobody_knows(tmp_path: Path) -> None:
    found = said("no.such.host.invalid:9092", tmp_path, "")
    assert "Failed to resolve 'no.such.host.invalid:9092'" in found
    assert "check the address" in found


#: What an endpoint of tokens answers, and what is said of it; none answers with a token.
ENDPOINTS = [
    (b"401 Unauthorized", b'{"error":"invalid_client: hunter2"}', '"invalid_client: ********"'),
    (b"200 OK", b"<html>", "Response is not JSON encoded"),
    (b"200 OK", b'{"expires":1}', "Response is not JSON encoded"),
]


def without_token(url: str, folder: Path) -> str:
    settings = (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={url}\n"
        "sasl.oauthbearer.client.credentials.client.id=me\n"
        "sasl.oauthbearer.client.credentials.client.secret=hunter2\n"
    )
    found = said("127.0.0.1:1", folder, settings)
    assert "no token came from sasl.oauthbearer.token.endpoint.url (" in found
    assert "so no broker was contacted: check that address" in found
    assert "refused our credentials" not in found
    return found


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://me:hunter2@no.such.host.invalid/token", "Could not resolve host: no.such.host"),
        ("http://127.0.0.1:1/token", "Could not connect to server"),
        ("ftp://127.0.0.1:1/token", 'Protocol "ftp"'),
    ],
)
def test_an_endpoint_of_tokens_that_is_not_reached(url: str, words: str, tmp_path: Path) -> None:
    assert words in without_token(url, tmp_path)


@pytest.mark.parametrize(("status", "body", "words"), ENDPOINTS)
def test_an_endpoint_that_gives_no_token(
    status: bytes, body: bytes, words: str, listen: Callable[[Answer], str], tmp_path: Path
) -> None:
    head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    assert words in without_token(f"http://{listen(says(head + body))}/token", tmp_path)
