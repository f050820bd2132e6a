"""Members of experiments in JVMs: one for all, and one for each member with a fault."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from tests.support.kafka import class_data
from tests.support.kafka.jars import kafka_jars
from tests.support.kafka.jvm import FAST_JVM, RigError, java_command
from tests.support.kafka.oracles import oracle_classes
from tests.support.kafka.workload import set_group_config

_SOURCES = Path(__file__).with_name("java")
#: Records that every JVM reads before it counts: a cold one takes several times as long for the
#: first hundreds of polls.
WARM_UP_TOPIC, WARM_UP_RECORDS = "warm-up", 4000
_SIGNALS = {"crash": signal.SIGKILL, "hang": signal.SIGSTOP}


class Members:
    """The members of one group, from joining to leaving.

    Parameters
    ----------
    servers, group, prefix
        The broker, the group, and the prefix of its topics.
    told
        See `tools.record.fidelity.script.script`.
    warm_up
        Number of records that each JVM reads before it counts.
    """

    def __init__(
        self,
        servers: str,
        group: str,
        prefix: str,
        result: dict[str, Any],
        warm_up: int = WARM_UP_RECORDS,
    ) -> None:
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self._polls: list[dict[str, Any]] = []
        #: Failures that no call was waiting for.
        self.failures: list[str] = []
        self._timers: list[threading.Timer] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed together with the processes)
        harmed = [fault[2] for fault in result["faults"]]
        if result.get("crashes"):  # the member with that record ends, and no other
            harmed = [one["name"] for one in result["members"]]
        parts = [[one for one in result["members"] if one["name"] not in harmed]]
        parts += [[one] for one in result["members"] if one["name"] in harmed]
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self._by_name: dict[str, subprocess.Popen[str]] = {}
        for part in parts:
            process = self._start()
            self._by_name |= dict.fromkeys((one["name"] for one in part), process)
            alone = f"warm-up-{uuid4().hex}"
            set_group_config(servers, alone, **{"share.auto.offset.reset": "earliest"})
            script = {
                "bootstrap": servers,
                "group": group,
                "prefix": prefix,
                "watch": 0 if len(self._processes) > 1 else len(result["members"]),
                "warmUp": {"group": alone, "topic": WARM_UP_TOPIC, "records": warm_up},
                "members": part,
                "work": result["work"],
                "outcomes": result["outcomes"],
                "holds": result.get("holds", {}),
            }
            _say(process, json.dumps(script))

    def join(self, within: float) -> None:
        """Let all members join, and wait until they have their assignments.

        Raises
        ------
        RigError
            They did not in time, or a member failed.
        """
        for _ in self._processes:
            self.wait_for(lambda line: "ready" in line, within)
        for process in self._processes:
            _say(process, "go")
        self.wait_for(lambda line: "settled" in line, within)

    def wait_for(self, found: Callable[[dict[str, Any]], bool], within: float) -> dict[str, Any]:
        """Read lines until one matches.

        Raises
        ------
        RigError
            It did not come in time, or a member failed.
        """
        deadline = time.monotonic() + within
        while True:
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise RigError(
                    f"the members were not done within {within:g} s:\n{self._said()}"
                ) from None
            if "error" in line:
                raise RigError(f"a member failed: {line['error']}\n{self._said()}")
            if "runs" in line:
                self._polls.append(line)
            if found(line):
                return line

    def befall(self, faults: Iterable[list[Any]], begin: float) -> None:
        """Kill and stop processes at their times; ``begin`` is in ms since the epoch."""
        for at, kind, member, for_ms in faults:
            self._later(begin + at, member, _SIGNALS[kind])
            if kind == "hang" and for_ms is not None:
                self._later(begin + at + for_ms, member, signal.SIGCONT)

    def leave(self) -> list[dict[str, Any]]:
        """Let all remaining members leave, and return the reports of all polls."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                _say(process, "stop")
        for process in self._processes:
            process.wait(60)
        while not self._lines.empty():
            line = self._lines.get()
            if "runs" in line:
                self._polls.append(line)
            elif "error" in line:
                self.failures.append(line["error"])
        return self._polls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for process, listener in zip(self._processes, self._listeners, strict=True):
            listener.join()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._errors.close()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            java_command(
                [kafka_jars() / "*", oracle_classes("ShareMembers", sources=_SOURCES)],
                "ShareMembers",
                heap="512m",
                flags=(*FAST_JVM, *class_data.options()),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._processes.append(process)
        self._listeners.append(threading.Thread(target=self._listen, args=(process,), daemon=True))
        self._listeners[-1].start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self._lines.put(json.loads(line))

    def _later(self, at_ms: float, member: str, what: signal.Signals) -> None:
        timer = threading.Timer(
            at_ms / 1000 - time.time(), os.killpg, (self._by_name[member].pid, what)
        )
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3000:]


def _say(process: subprocess.Popen[str], line: str) -> None:
    if process.stdin is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
