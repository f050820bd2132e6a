"""Kafka's own classes, asked from Python: one JSON object a line to a kept Java process, one back.

What to ask and what comes back is at the top of each program in ``java/``.
"""

import atexit
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Self

from sharelag.model import SharePartition
from sharelag.whatif import jar_assignor
from sharelag.whatif.assignors.jar import JarAssignor
from tests.support.kafka import class_data
from tests.support.kafka.jars import KAFKA_VERSION, build_once, cache_dir, digest, kafka_jars
from tests.support.kafka.jvm import FAST_JVM, RigError, find_java, java_command
from tests.support.kafka.workload import wait_until

_SOURCES = Path(__file__).with_name("java")
_ONE_AT_A_TIME = threading.Lock()


class Oracle:
    """One Java program, running until it is closed. Not for use by several threads at once.

    ``program``: name of a program in ``java/``. ``args``: its options. ``version``: of Kafka, whose
    classes are asked. ``heap``, ``flags``: of the JVM. ``sources``: the folder of the program; it
    may use those of ``java/``, too. ``libraries``: jars beside Kafka's.
    """

    def __init__(
        self,
        program: str,
        *args: str,
        version: str = KAFKA_VERSION,
        heap: str = "256m",
        flags: Sequence[str] = FAST_JVM,
        sources: Path = _SOURCES,
        libraries: Sequence[Path] = (),
    ) -> None:
        self.program, self.version = program, version
        is_other = version != KAFKA_VERSION
        command = java_command(
            [kafka_jars(version) / "*", oracle_classes(program, version, sources), *libraries],
            program,
            *args,
            heap=heap,
            flags=(*flags, *([] if is_other else class_data.options())),
        )
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed together with the process)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    @property
    def process_id(self) -> int:
        return self._process.pid

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Ask one question. What Kafka refuses comes back as ``{"error": ...}``."""
        return self.ask_many([question])[0]

    def ask_many(self, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Ask questions without waiting for each answer, and return the answers in order."""
        lines = [json.dumps(question) + "\n" for question in questions]
        # Both pipes are small: were all questions written before the first answer is read, both
        # sides would block.
        writer = threading.Thread(target=self._write, args=(lines,), daemon=True)
        writer.start()
        answers = [self._read() for _ in lines]
        writer.join()
        return answers

    def close(self) -> None:
        """End the process; it leaves by itself when its input ends."""
        if self._errors.closed:
            return
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        finally:
            self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, lines: list[str]) -> None:
        stdin = _opened(self._process.stdin)
        try:
            for line in lines:
                stdin.write(line)
            stdin.flush()
        except BrokenPipeError:
            return  # the reading side meets the end of the output, and knows more to tell

    def _read(self) -> dict[str, Any]:
        line = _opened(self._process.stdout).readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace")[-4000:]
            raise RigError(f"{self.program} ended with code {self._process.returncode}:\n{said}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def hexed(records: Iterable[tuple[bytes, bytes | None]], begin: int = 0) -> dict[str, Any]:
    """Return keys and values of a state partition from an offset, for ``ReplayOracle``."""
    return {
        "records": [
            {"o": offset, "k": key.hex(), "v": None if value is None else value.hex()}
            for offset, (key, value) in enumerate(records, begin)
        ]
    }


def as_kafka(windows: dict[SharePartition, Any]) -> dict[str, Any]:
    """Return replayed states in the form in which Kafka's classes print them."""
    return {
        str(key): {
            "snapshotEpoch": window.snapshot_epoch,
            "stateEpoch": window.state_epoch,
            "leaderEpoch": window.leader_epoch,
            "startOffset": window.start_offset,
            "deliveryCompleteCount": window.delivery_complete_count,
            "createTimestamp": window.create_timestamp,
            "writeTimestamp": window.write_timestamp,
            "batches": [list(batch) for batch in window.batches],
        }
        for key, window in windows.items()
    }


@cache
def _commands() -> Oracle:
    oracle = Oracle("Commands")
    atexit.register(oracle.close)
    return oracle


def ask_commands(question: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the process of Kafka's own commands, one for all brokers: it takes longer to start."""
    with _ONE_AT_A_TIME:
        return _commands().ask(question)


def run_command(main_class: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's commands there; the caller checks the exit code."""
    told = ask_commands({"command": main_class, "args": args})
    if "error" in told:
        raise RigError(f"{main_class} {' '.join(args)} failed: {told['error']}")
    return subprocess.CompletedProcess([main_class, *args], told["code"], told["out"], told["err"])


class ShareHolders(Oracle):
    """Members of share groups that poll, acknowledge and renew when they are asked to."""

    def __init__(self) -> None:
        super().__init__("ShareHolders", heap="512m")

    def do(self, what: str, member: str, **more: Any) -> dict[str, Any]:
        """Let a member do something, which must not be refused."""
        answer = self.ask({"do": what, "member": member, **more})
        assert not any(map(answer.get, ("error", "refused"))), (what, member, answer)
        return answer

    def poll(self, member: str) -> set[tuple[int, int, int]]:
        """Return partition, offset and delivery count of the next records that a member gets."""
        found: set[tuple[int, int, int]] = set()

        def has_some() -> bool:
            found.update(map(tuple, self.do("poll", member, ms=500)["records"]))
            return bool(found)

        wait_until(has_some, f"{member} has records")
        return found


def simple_assignor(version: str = KAFKA_VERSION) -> JarAssignor:
    """Return Kafka's own share assignor of a version."""
    jars = kafka_jars(version)
    name = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"
    return jar_assignor(jars / f"kafka-group-coordinator-{version}.jar", name, kafka=jars)


def oracle_classes(program: str, version: str = KAFKA_VERSION, sources: Path = _SOURCES) -> Path:
    """Return the folder of a compiled program; compile it, and what it uses, if changed.

    Each is compiled alone, since no version of Kafka has all classes that all programs name.
    """
    return build_once(
        cache_dir() / f"oracles-{digest([_SOURCES, sources], version, program)}",
        lambda folder: _compile(program, version, sources, folder),
    )


def _compile(program: str, version: str, sources: Path, folder: Path) -> None:
    path = os.pathsep.join(map(str, dict.fromkeys([sources, _SOURCES])))
    command = [str(find_java("javac")), "-nowarn", "-proc:none", "-cp", f"{kafka_jars(version)}/*"]
    command += ["-sourcepath", path, "-d", str(folder), str(sources / f"{program}.java")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RigError(
            f"{program} in {sources} does not compile with Kafka {version}:\n"
            f"{done.stdout}{done.stderr}"
        )


def _opened(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:  # cannot be: both are opened as pipes
        raise RigError("the oracle has no pipe")
    return pipe
