"""Ports for the servers of tests, each of one process of tests alone.

The system gives out ports at random, to outgoing connections as to whoever asks for port 0; so what
is free now may be taken before a server listens there, or while it restarts. These lie below those.
"""

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: First and last port that Linux gives out itself.
SYSTEM_TAKES = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Well-known servers have most of the ports below.
_FIRST = 10_000
_CHANCE = random.SystemRandom()  # not that of the tests, which repeats itself in every process


def free_port() -> int:
    """Return one port, as `free_ports` does."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that no other process of tests gets while this one lives.

    All checkouts of this user share the locks, which lie in the temporary folder.
    """
    locks = Path(tempfile.gettempdir(), f"sharelag-ports-{os.getuid()}")
    locks.mkdir(exist_ok=True)
    candidates = list(range(_FIRST, _first_of_system()))
    _CHANCE.shuffle(candidates)
    ports: list[int] = []
    for port in candidates:
        if len(ports) == count:
            return ports
        if _hold(locks / str(port)) and _is_unused(port):
            ports.append(port)
    raise RuntimeError(f"no free port from {_FIRST} on; {locks} has the locks of those in use")


@contextmanager
def dead_address(listens: bool = False) -> Iterator[str]:
    """Give an address at which nobody answers: it refuses connections, or takes them in silence.

    ``listens``: whether it takes connections. Nobody else gets the port meanwhile.
    """
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        if listens:
            nobody.listen()
        yield f"127.0.0.1:{nobody.getsockname()[1]}"


def _first_of_system() -> int:
    """Return the first port that the system gives out, or where Linux has it if this is none."""
    try:
        return int(SYSTEM_TAKES.read_text().split()[0])
    except FileNotFoundError:
        return 32_768


def _hold(lock: Path) -> bool:
    held = os.open(lock, os.O_CREAT | os.O_RDWR)  # it ends with the process
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return False
    return True


def _is_unused(port: int) -> bool:
    """Return whether a port can be bound: a server may have outlived its tests."""
    with socket.socket() as asking:
        try:
            asking.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
