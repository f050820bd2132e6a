"""Assignors that are Java classes: each has a Java process that answers one group after another."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import IO, Any
from weakref import WeakValueDictionary, finalize

from sharelag.errors import InputError
from sharelag.java import find_java
from sharelag.model import topic_id_text
from sharelag.whatif.assignors.group import Assignment, AssignorError, Group

_BRIDGE = Path(__file__).with_name("java") / "AssignorBridge.java"
#: For a quick start, and answers in less than a millisecond.
_JAVA_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def jar_assignor(
    path: str | Path, class_name: str, *, kafka: str | Path | None = None
) -> JarAssignor:
    """Return a class of a jar as an assignor, for `register`, `check_contract` and others.

    Parameters
    ----------
    path : str or Path
        The jar.
    class_name : str
        A ``ShareGroupPartitionAssignor`` in it, with its package.
    kafka : str or Path, optional
        The folder of a Kafka, or of its jars; ``$KAFKA_HOME`` by default.

    Returns
    -------
    JarAssignor
        A function of a group. Its Java process starts with the first group, and ends with the
        function or with this process.

    Raises
    ------
    InputError
        The jar does not exist, or there is no Kafka in that folder.

    Examples
    --------
    >>> mine = jar_assignor("mine.jar", "com.example.MyAssignor", kafka="/opt/kafka")
    >>> register("mine", mine)
    >>> rank_assignors(["mine"])
    """
    jar = Path(path).resolve()
    if not jar.is_file():
        raise InputError(f"there is no jar {str(path)!r}: correct the path")
    libraries = _find_libraries(kafka)
    key = (jar, class_name, libraries, sha256(jar.read_bytes()).hexdigest())
    return _KNOWN.get(key) or _KNOWN.setdefault(key, JarAssignor(*key))


class JarAssignor:
    """An assignor that is a class of a jar, made by `jar_assignor`."""

    def __init__(self, jar: Path, class_name: str, libraries: Path, digest: str) -> None:
        self.jar, self.class_name, self.libraries = jar, class_name, libraries
        self.digest = digest  # of the jar
        self.__name__ = f"{jar.name}:{class_name}"
        self._java: _Java | None = None
        self._one_at_a_time = Lock()

    def __call__(self, group: Group) -> Assignment:
        """Return the class's assignment of a group."""
        with self._one_at_a_time:
            # An interrupt may leave an answer unread: the next group then starts another process.
            java, self._java = self._java, None
            # After a fork, the pipes belong to the parent process.
            if java is None or java.owner != os.getpid():
                java = _Java(self)
                finalize(self, java.close)
                self._require_answer(java.read())
            answer = java.ask(_question(group))
            self._java = java
        self._require_answer(answer)
        return {member: dict(topics) for member, topics in answer["assignment"]}

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a Spark process create its own instance, with its own Java process."""
        return partial(jar_assignor, kafka=self.libraries), (self.jar, self.class_name)

    def _require_answer(self, answer: Mapping[str, Any]) -> None:
        """Raise the exception of the class."""
        if "error" in answer:
            raise AssignorError(f"{self.__name__} failed: {answer['error']}; fix the class")


_KNOWN: WeakValueDictionary[tuple[Path, str, Path, str], JarAssignor] = WeakValueDictionary()


class _Java:
    """A Java process of `AssignorBridge`; it ends when its input does."""

    def __init__(self, of: JarAssignor) -> None:
        java = find_java()
        if java is None:
            raise InputError(f"{of.__name__} needs Java: set JAVA_HOME to a JDK, 17 or newer")
        self.owner, self._name = os.getpid(), of.__name__
        classes = f"{of.libraries}/*{os.pathsep}{of.jar}"
        # Closed with the process.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(java), *_JAVA_FLAGS, "-cp", classes, str(_BRIDGE), of.class_name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            start_new_session=True,  # an interrupt is for Python
        )
        self._to_java: Any = self._process.stdin
        self._from_java: Any = self._process.stdout

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question."""
        with suppress(BrokenPipeError):  # then there is no answer to read, and `read` says why
            self._to_java.write(json.dumps(question) + "\n")
            self._to_java.flush()
        return self.read()

    def read(self) -> dict[str, Any]:
        """Return the next answer, or raise an error about the end of the process."""
        if line := self._from_java.readline():
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self._process.wait()
        self._errors.seek(0)
        printed = self._errors.read().decode(errors="replace").split("\n")
        words = next((line for line in printed if "rror" in line), "without an error message")
        raise AssignorError(
            f"the Java process of {self._name} ended: code {code}, {words}; fix the class, or set "
            "JAVA_HOME to a JDK that is at least 17"
        )

    def close(self) -> None:
        """End the process, unless it has ended."""
        if self.owner == os.getpid():
            self._process.kill()  # it has nothing to finish
            self._process.communicate()
            self._errors.close()


def _find_libraries(kafka: str | Path | None) -> Path:
    given = kafka or os.environ.get("KAFKA_HOME")
    for folder in (Path(given, "libs"), Path(given)) if given else ():
        if any(folder.glob("kafka-group-coordinator-*.jar")):
            return folder.resolve()
    where = f"there are none in {str(given)!r}" if given else "no folder is given"
    raise InputError(
        f"an assignor in a jar needs Kafka's jars, and {where}: set KAFKA_HOME (or kafka=) to the "
        "folder of Kafka 4.1 or newer, which has them in libs"
    )


def _question(group: Group) -> dict[str, Any]:
    topics: dict[str, dict[str, Any]] = {}
    for name, one in group.topics.items():
        topics[name] = {"id": topic_id_text(one.id), "partitions": one.partitions}
        topics[name] |= {"assignable": one.assignable, "racks": dict(one.racks)}
    return {"members": [vars(one) for one in group.members], "topics": topics}
