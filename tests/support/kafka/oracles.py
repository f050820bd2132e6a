"""Kafka's own classes, asked from Python: one JSON object a line to a kept Java process, one back.

What to ask and what comes back is at the top of each program in ``java/``.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.support.kafka import class_data
from tests.support.kafka.jars import KAFKA_VERSION, build_once, cache_dir, kafka_jars
from tests.support.kafka.jvm import FAST_JVM, TIMED_JVM, RigError, find_java, java_command

_SOURCES = Path(__file__).with_name("java")


class Oracle:
    """One Java program, running until it is closed. Not for use by several threads at once.

    Parameters
    ----------
    program
        Name of a program in ``java/``.
    args
        Its options.
    version
        Of Kafka, whose classes are asked.
    heap, flags
        Of the JVM.
    """

    def __init__(
        self,
        program: str,
        *args: str,
        version: str = KAFKA_VERSION,
        heap: str = "256m",
        flags: Sequence[str] = FAST_JVM,
    ) -> None:
        self.program, self.version = program, version
        is_other = version != KAFKA_VERSION
        command = java_command(
            [kafka_jars(version) / "*", oracle_classes(program, version)],
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
        """Id of its process."""
        return self._process.pid

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Ask one question. What Kafka refuses comes back as ``{"error": ...}``.

        Raises
        ------
        RigError
            The process is gone; with what it said last.
        """
        return self.ask_many([question])[0]

    def ask_many(self, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Ask questions without waiting for each answer, and return the answers in order.

        Raises
        ------
        RigError
            The process is gone; with what it said last.
        """
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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


def combiner(version: str = KAFKA_VERSION) -> Oracle:
    """How Kafka merges state batches."""
    return Oracle("CombinerOracle", version=version)


def replayer(keep_going: bool = False, version: str = KAFKA_VERSION) -> Oracle:
    """Ask which state a share coordinator has after given records; ``keep_going`` past errors."""
    return Oracle("ReplayOracle", *(["--keep-going"] if keep_going else []), version=version)


def record_json() -> Oracle:
    """How Kafka reads a record of either topic, and which partition a key belongs to."""
    return Oracle("RecordJsonOracle")


def coordinator(version: str = KAFKA_VERSION) -> Oracle:
    """Which records a share coordinator writes when asked."""
    return Oracle("CoordinatorOracle", version=version)


def timed_replay() -> Oracle:
    """How long Kafka takes to deserialise and to replay the records of a folder; see its program."""
    return Oracle("TimedReplay", heap="6g", flags=TIMED_JVM)


def settings(version: str = KAFKA_VERSION) -> Oracle:
    """Which settings share groups have, which values they may have, and which are in force."""
    return Oracle("SettingsOracle", version=version)


def share_partition() -> Oracle:
    """What the leader of a share partition does, holds in memory and writes."""
    return Oracle("SharePartitionOracle")


def share_groups() -> Oracle:
    """``kafka-share-groups.sh``, as often as asked: its process takes longer to start than to answer."""
    return Oracle("ShareGroups")


def share_holders() -> Oracle:
    """Members of share groups that poll, acknowledge and renew when they are asked to."""
    return Oracle("ShareHolders", heap="512m")


def rights() -> Oracle:
    """Ask what a user may do on a cluster, by doing it with Kafka's own clients."""
    return Oracle("RightsOracle")


def client_settings() -> Oracle:
    """How Kafka's commands resolve client properties."""
    return Oracle("ClientSettings")


def error_codes() -> Oracle:
    """Ask for the codes of Kafka's errors."""
    return Oracle("ErrorCodes")


def simple_assignor(version: str = KAFKA_VERSION) -> Oracle:
    """Ask Kafka's own share assignor for an assignment."""
    return Oracle("SimpleAssignorOracle", version=version)


def share_values(version: str) -> Oracle:
    """Ask a version's generated classes how they read values of the state topic."""
    return Oracle("ShareValueOracle", version=version)


def oracle_classes(program: str, version: str = KAFKA_VERSION) -> Path:
    """Return the folder of a compiled program, compiling it, and what it uses, if they have changed.

    Each is compiled alone, since no version of Kafka has all classes that all programs name.
    """
    stamp = hashlib.sha256(repr([version, program]).encode())
    for source in sorted(_SOURCES.rglob("*.java")):
        stamp.update(source.name.encode() + source.read_bytes())
    return build_once(
        cache_dir() / f"oracles-{stamp.hexdigest()[:16]}",
        lambda folder: _compile(program, version, folder),
    )


def _compile(program: str, version: str, folder: Path) -> None:
    command = [
        str(find_java("javac")),
        "-nowarn",
        "-proc:none",
        "-cp",
        str(kafka_jars(version) / "*"),
        "-sourcepath",
        str(_SOURCES),
        "-d",
        str(folder),
        str(_SOURCES / f"{program}.java"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RigError(
            f"{program} in {_SOURCES} does not compile with Kafka {version}:\n"
            f"{done.stdout}{done.stderr}"
        )


def _opened(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:  # cannot be: both are opened as pipes
        raise RigError("the oracle has no pipe")
    return pipe
