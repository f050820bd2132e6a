"""The doctor says what is wrong with a machine, a cluster, or what answers in its place."""

import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from sharelag.cli import doctor
from sharelag.cli.doctor import Check, checks
from sharelag.errors import BrokerUnreachableError, ClusterError, InputError
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka.brokers import Features, broker_features
from sharelag.inputs.kafka.config import client_config
from sharelag.wire.encode import encode_varint
from sharelag.workbench import open_workbench
from sharelag.workbench.rights import rights_of
from tests.support.chapters import CAPTURE
from tests.support.command import refused, sharelag
from tests.support.ports import dead_address

Answer = Callable[[socket.socket], None]
JAVA_17 = 'openjdk version "17.0.9" 2023-10-17'


# ---- this machine --------------------------------------------------------------------------------
def _fake_java(folder: Path, says: str, modules: str = "jdk.incubator.vector@17") -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    listed = f"if [ \"$1\" = --list-modules ]; then echo '{modules}'"
    java.write_text(f"#!/bin/sh\n{listed}; else echo '{says}' >&2; fi\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize("through", ["JAVA_HOME", "PATH"])
@pytest.mark.parametrize(
    ("java", "verdict", "found", "advice"),
    [
        ((JAVA_17, "jdk.incubator.vector@17"), "ok", "17 at ", ""),
        (('openjdk version "21" 2023-09-19', "jdk.incubator.vector@21"), "ok", "21 at ", ""),
        (('openjdk version "25-ea" 2025-09-16', "jdk.incubator.vector@25"), "ok", "25 at ", ""),
        (('java version "1.8.0_392"', ""), "fail", "8 at ", "install Java 17 or newer"),
        (('openjdk version "11.0"', "jdk.incubator.vector@11"), "fail", "11 at ", "install Java"),
        ((JAVA_17, "java.base@17"), "fail", "trimmed", "install a full JDK"),
        (("command not understood", ""), "fail", "does not print its version", "install Java 17"),
    ],
)
def test_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str, java: tuple[str, str],
    verdict: str, found: str, advice: str,
) -> None:  # fmt: skip
    home = _fake_java(tmp_path / "jdk", *java)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    if through == "JAVA_HOME":
        monkeypatch.setenv("JAVA_HOME", str(home))
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
    check = next(iter(checks()))
    assert (check.verdict, check.what) == (verdict, "java")
    assert found in check.found
    assert advice in check.advice


@pytest.mark.parametrize("home", [None, "/no/such/jdk"])
def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    if home:  # wins over the PATH, in Spark too
        monkeypatch.setenv("JAVA_HOME", home)
        monkeypatch.setenv("PATH", str(_fake_java(tmp_path / "jdk", JAVA_17) / "bin"))
    check = next(iter(checks()))
    assert (check.verdict, check.what) == ("fail", "java")
    assert "not found" in check.found
    assert (home or "") in check.found
    assert "--engine local works without it" in check.advice


@pytest.mark.parametrize("packages", [["pyspark"], ["pyspark-client"], []])
@pytest.mark.parametrize("place", ["", "local[2]", "sc://spark:15002/;token=x"])
def test_java_is_missed_only_where_spark_would_start_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: list[str], place: str
) -> None:
    def installed(name: str) -> str:
        if name not in packages:
            raise PackageNotFoundError(name)
        return "4.2.0"

    monkeypatch.setattr(doctor, "version", installed)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SPARK_REMOTE", place)
    java, spark, *_ = checks()
    needed = packages == ["pyspark"] and not place.startswith("sc:")
    assert java.verdict == ("fail" if needed else "warn")
    assert "17 or newer" in java.advice
    assert spark.verdict == ("ok" if packages else "warn")
    assert doctor.doctor.main([], standalone_mode=False) == int(needed)


def test_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert Check("ok", "spark", version("pyspark")) in list(checks())

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", missing)
    advice = {(check.verdict, check.what): check.advice for check in checks()}
    assert advice["warn", "spark"].startswith("pip install")


def test_without_a_cluster_it_says_how_to_name_one() -> None:
    *_, last = checks()
    advice = "add --bootstrap-server HOST:PORT to check a cluster"
    assert last == Check("warn", "cluster", "not checked", advice)


def test_a_broker_that_is_not_there_ends_the_checks_of_the_cluster() -> None:
    with dead_address() as address:
        found = list(checks(client_config(address, timeout=1)))
    assert [check.what for check in found] == ["java", "spark", "broker"]
    assert found[-1].verdict == "fail"
    assert found[-1].found.startswith(f"no broker answered at {address} within 1 s")
    assert found[-1].advice.startswith("check the address")


# ---- what a broker says about itself -------------------------------------------------------------
def _compact(text: str) -> bytes:
    return encode_varint(len(text) + 1) + text.encode()


Levels = dict[str, tuple[int, int]]


def _levels(levels: Levels) -> bytes:
    data = encode_varint(len(levels) + 1)
    for name, (one, other) in levels.items():
        data += _compact(name) + struct.pack(">hh", one, other) + b"\0"
    return data


def _answer(
    apis: dict[int, int], supported: Levels | None = None, finalized: Levels | None = None
) -> bytes:
    """An ApiVersions response of version 3, as the protocol guide has it."""
    body = struct.pack(">ih", 1, 0) + encode_varint(len(apis) + 1)
    for key, highest in apis.items():
        body += struct.pack(">hhh", key, 0, highest) + b"\0"
    body += struct.pack(">i", 0)
    tags = {0: None if supported is None else _levels(supported), 1: struct.pack(">q", 7)}
    tags[2] = None if finalized is None else _levels(finalized)
    present = {tag: data for tag, data in tags.items() if data is not None}
    body += encode_varint(len(present))
    for tag, data in present.items():
        body += encode_varint(tag) + encode_varint(len(data)) + data
    return struct.pack(">i", len(body)) + body


@contextmanager
def _listening(answer: Answer) -> Iterator[str]:
    """Serve one answer to everybody at an address."""
    server = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with suppress(OSError):  # the test is over
            while True:
                client, _ = server.accept()
                with closing(client), suppress(OSError):
                    answer(client)

    threading.Thread(target=run, daemon=True).start()
    with closing(server):
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def _says(octets: bytes) -> Answer:
    """Something that answers, whatever it is asked."""

    def answer(client: socket.socket) -> None:
        client.recv(1 << 16)
        client.sendall(octets)

    return answer


def _asked(data: bytes) -> Features:
    with _listening(_says(data)) as address:
        return broker_features(client_config(address, timeout=5))


_HAS_SHARE = {"share.version": (0, 1)}
_OF_METADATA = {"metadata.version": (1, 21)}, {"metadata.version": (21, 21)}
_MANY = {f"f{n}": (0, n) for n in range(200)}


@pytest.mark.parametrize(
    ("apis", "levels", "found"),
    [
        ({18: 4, 85: 1}, (_HAS_SHARE, {"share.version": (1, 1)}), (1, True, True)),
        ({18: 4, 85: 1}, (_HAS_SHARE, {"share.version": (0, 0)}), (0, True, True)),
        ({18: 4, 85: 1}, (_HAS_SHARE, {}), (0, True, True)),
        ({18: 4, 85: 0}, (_HAS_SHARE, {"share.version": (1, 1)}), (1, True, False)),
        ({18: 4}, _OF_METADATA, (0, False, False)),
        ({18: 3}, (), (0, False, False)),
        (dict.fromkeys(range(300), 1), (_MANY, {"share.version": (2, 1)}), (2, True, True)),
    ],
)
def test_features(
    apis: dict[int, int], levels: tuple[Levels, ...], found: tuple[int, bool, bool]
) -> None:
    told = _asked(_answer(apis, *levels))
    assert (told.share_version, told.has_share_state, told.has_complete_count) == found


def test_the_level_is_the_one_in_force() -> None:
    assert _asked(_answer({18: 4}, {"a": (3, 7)}, {"a": (6, 5)})).finalized == {"a": 6}


def test_an_answer_in_pieces() -> None:
    data = _answer({18: 4, 85: 1}, {}, {"share.version": (1, 1)})

    def slowly(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            connection.sendall(bytes([byte]))

    with _listening(slowly) as address:
        assert broker_features(client_config(address, timeout=5)).share_version == 1


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"\xff\xff\xff\xff",
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 0),
        _answer({18: 4, 85: 1}, {"share.version": (0, 1)})[:4] + b"\xff" * 64,
        struct.pack(">iihBiB", 12, 1, 0, 0, 0, 0),  # a table of apis that is null
        struct.pack(">ii", 9, 1) + b"\0\0\x09zz",  # a table of apis that ends early
        # Numbers that do not end, and a name longer than any memory.
        struct.pack(">ii", 1 << 20, 1) + b"\0\0" + b"\x80" * ((1 << 20) - 6),
        struct.pack(">ii", 22, 1) + b"\0\0\1\0\0\0\0\1\0\x09\2" + b"\xff" * 7,
    ],
)
def test_somebody_who_is_no_kafka_broker(data: bytes) -> None:
    with pytest.raises(ClusterError, match="does not answer as a Kafka broker: check host and"):
        _asked(data)


def test_a_broker_that_hangs_up() -> None:
    with pytest.raises(BrokerUnreachableError, match="closed the connection"):
        _asked(b"")


def test_a_broker_that_refuses_the_version_of_the_question() -> None:
    # Error 35, and the table of apis in the first version: what a broker before 2.4 says.
    body = struct.pack(">ihi", 1, 35, 1) + struct.pack(">hhh", 18, 0, 2)
    with pytest.raises(ClusterError, match="older than"):
        _asked(struct.pack(">i", len(body)) + body)


def test_the_next_address_is_tried() -> None:
    with dead_address() as dead, _listening(_says(_answer({85: 1}))) as there:
        config = client_config(f"{dead},PLAINTEXT://{there}", timeout=5)
        assert broker_features(config).has_complete_count


def test_nobody_answers() -> None:
    said = r"no broker answered.*check the addresses"
    with dead_address() as dead, pytest.raises(BrokerUnreachableError, match=said):
        broker_features(client_config(f"{dead}, {dead}", timeout=5))


def test_addresses_that_stay_silent_cost_one_timeout() -> None:
    """A broker that is stopped takes connections, and says nothing."""
    with dead_address(listens=True) as address:
        begun = time.monotonic()
        with pytest.raises(BrokerUnreachableError, match="timed out"):
            broker_features(client_config(",".join([address] * 5), timeout=1.5))
        # Once that and the grace are lost, each has the least that a login takes.
        assert time.monotonic() - begun < 1.5 + 0.75 + 3 * 0.25 + 1


# ---- the cluster, as the checks put it -----------------------------------------------------------
@pytest.mark.parametrize(
    ("features", "verdicts", "advice"),
    [
        (Features({85: 1}, {"metadata.version": 29, "share.version": 1}), ["ok", "ok"], ""),
        (Features({85: 1}, {"metadata.version": 29}), ["ok", "fail"], "kafka-features.sh"),
        (Features({85: 0}, {"share.version": 1}), ["warn", "ok"], "4.2 or newer"),
        (Features({18: 4}, {"metadata.version": 21}), ["fail", "fail"], "Kafka 4.0 or newer"),
    ],
)
def test_versions(
    monkeypatch: pytest.MonkeyPatch, features: Features, verdicts: list[str], advice: str
) -> None:
    monkeypatch.setattr("sharelag.inputs.kafka.brokers.broker_features", lambda _: features)
    found = list(doctor._features(client_config("b:1")))
    assert [check.verdict for check in found] == verdicts
    assert [check.what for check in found] == ["kafka version", "share.version"]
    assert advice in found[0].advice + found[1].advice


# ---- rights --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rights"], "--rights asks a cluster: add --bootstrap-server"),
        (["--group", "billing"], "--group only with --rights: add it"),
        (["-o", "json"], "--output only with --rights"),
        (["--principal", "User:a", "--topic", "t"], "--topic and --principal only with --rights"),
    ],
)
def test_options_of_rights_alone(arguments: list[str], said: str) -> None:
    assert said in refused("doctor", *arguments, code=2)


def test_a_capture_has_no_rights() -> None:
    bench = open_workbench(str(CAPTURE), engine="local")
    with pytest.raises(InputError, match="rights belong to a running cluster"):
        bench.rights()
    cluster = KafkaInput(client_config("127.0.0.1:9092"))
    with pytest.raises(InputError, match="invalid principal 'alice': give its type and name"):
        rights_of(cluster, ["g"], ["t"], "alice")
    with pytest.raises(InputError, match="invalid principal 'admin': give its type and name"):
        rights_of(cluster, ["g"], ["t"], "User:alice", ["admin"])
    with pytest.raises(
        InputError, match="super users are only for judging a principal: add --principal"
    ):
        rights_of(cluster, ["g"], ["t"], super_users=["User:admin"])


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
        (f"security.protocol=SASL_PLAINTEXT\n{_PLAIN}",
         "speaks TLS, and security.protocol is SASL_PLAINTEXT: set it to SASL_SSL in"),
        ("security.protocol=SSL\n", "is not trusted (self-signed certificate): set ssl.truststore"),
    ],
)  # fmt: skip
def test_a_listener_of_tls(settings: str, words: str, speak_tls: Answer, tmp_path: Path) -> None:
    with _listening(speak_tls) as address:
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
def test_the_answer_of_no_broker(octets: bytes, settings: str, words: str, tmp_path: Path) -> None:
    with _listening(_says(octets)) as address:
        found = said(address, tmp_path, settings)
    assert words in found
    assert "receive.message.max.bytes" not in found
    assert "brokers are down" not in found


def test_a_name_that_nobody_knows(tmp_path: Path) -> None:
    found = said("no.such.host.invalid:9092", tmp_path, "")
    assert "Failed to resolve 'no.such.host.invalid:9092'" in found
    assert "check the address" in found


def without_token(url: str, folder: Path) -> str:
    given = {"token.endpoint.url": url, "client.id": "me", "client.secret": "hunter2"}
    settings = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    settings += "".join(f"sasl.oauthbearer.{name}={value}\n" for name, value in given.items())
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


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (b"401 Unauthorized", b'{"error":"invalid_client: hunter2"}', '"invalid_client: ********"'),
        (b"200 OK", b"<html>", "Response is not JSON encoded"),
        (b"200 OK", b'{"expires":1}', "Response is not JSON encoded"),
    ],
)
def test_an_endpoint_of_no_token(status: bytes, body: bytes, words: str, tmp_path: Path) -> None:
    head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    with _listening(_says(head + body)) as address:
        assert words in without_token(f"http://{address}/token", tmp_path)
