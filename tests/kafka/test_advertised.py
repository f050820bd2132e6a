"""A broker that answers and names an address that cannot be reached: the cause is named."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import sharelag as package
from sharelag.errors import ClusterError
from tests.support.command import sharelag
from tests.support.kafka.broker import SECURE, USERS, KafkaBroker
from tests.support.ports import dead_address

#: What each listener names beside itself, by how that cannot be reached.
SHAPES = ("CLOSED", "UNRESOLVED", "SILENT", "BY_NAME", SECURE)
#: Those of a usual run; the others reach brokers by the same code.
QUICK = ("CLOSED", SECURE, "lag", "doctor")
COMMANDS = ("lag", "doctor", "settings --group g", "explain --engine local", "capture FOLDER")


def each(names: Sequence[str]) -> list[Any]:
    """Return names as parameters of a test, of which a usual run takes some."""
    long = pytest.mark.exhaustive
    return [one if one in QUICK else pytest.param(one, marks=long) for one in names]


@pytest.fixture(scope="module")
def named() -> Iterator[dict[str, tuple[str, str]]]:
    """By shape, the address that answers, and the one that it names."""
    with ExitStack() as stack:
        closed, silent, other = (stack.enter_context(socket.socket()) for _ in range(3))
        for one in (closed, silent, other):
            one.bind(("127.0.0.1", 0))
        silent.listen(0)
        for _ in range(3):  # the queue of its connections is full
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(silent.getsockname())
        ports = [one.getsockname()[1] for one in (closed, silent, other)]
        others = dict.fromkeys([name for name in SHAPES if name != SECURE], "PLAINTEXT")
        broker = KafkaBroker(extra_listeners=others, secure=True)
        away = {"CLOSED": f"127.0.0.1:{ports[0]}", "UNRESOLVED": "kafka.invalid:29092"}
        away |= {"SILENT": f"127.0.0.1:{ports[1]}", "BY_NAME": f"localhost:{ports[0]}"}
        away |= {SECURE: f"127.0.0.1:{ports[2]}"}
        told = {name: away.get(name, broker.address(name)) for name in (*others, SECURE)}
        told["PLAINTEXT"] = broker.bootstrap_servers
        listed = (f"{name}://{address}" for name, address in told.items())
        broker.settings["advertised.listeners"] = ",".join(listed)
        with broker:
            yield {name: (broker.address(name), address) for name, address in away.items()}


def said(text: str, asked: str, named: str) -> bool:
    """Return whether a text names what was asked, what was named, and the setting that decides."""
    cause = f"{asked} answered and named broker 1 at {named}, which was not reached from here"
    return cause in text and "advertised.listeners" in text and "no broker answered" not in text


@pytest.mark.parametrize("name", each(COMMANDS))
def test_each_names_the_cause(name: str, named: dict[str, tuple[str, str]], tmp_path: Path) -> None:
    words = name.replace("FOLDER", str(tmp_path / "capture")).split()
    done = sharelag(*words, "--bootstrap-server", named["CLOSED"][0], "--timeout", "1500ms")
    assert done.returncode in (1, 3)
    assert said(done.stdout + done.stderr, *named["CLOSED"]), done.stdout + done.stderr


@pytest.mark.parametrize("shape", each(SHAPES))
def test_unreachable_address(shape: str, named: dict[str, tuple[str, str]], tmp_path: Path) -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    user = f'{login} username="admin" password="{USERS["admin"]}";'
    secure = {"security.protocol": SECURE, "sasl.mechanism": "PLAIN", "sasl.jaas.config": user}
    # That an address is silent shows after three fifths of it, later on a busy machine.
    seconds = 15.0 if shape == "SILENT" else 2.5
    properties = secure if shape == SECURE else {}
    bench = package.open(named[shape][0], properties=properties, engine="local", timeout=seconds)
    with pytest.raises(ClusterError) as raised:
        bench.lag()
    assert said(str(raised.value), *named[shape]), str(raised.value)
    assert USERS["admin"] not in str(raised.value)


def test_one_of_two_addresses_answers(named: dict[str, tuple[str, str]]) -> None:
    with dead_address() as nobody:
        both = f"{nobody},{named['CLOSED'][0]}"
        done = sharelag("lag", "--bootstrap-server", both, "--timeout", "3s")
    assert said(done.stderr, both, named["CLOSED"][1]), done.stderr
