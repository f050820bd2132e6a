"""A stream starts where one can run, and again only if Spark's Python worker was too slow."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from sharelag.errors import InputError, SetupError
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.spark.queries import has_ended, require_streams, start_query

FAILED = "[STREAM_FAILED] Query [id = 1] terminated with exception: "
SLOW, LOST = f"{FAILED}Python worker failed to connect back.", f"{FAILED}offsets were pruned"


class _Query:
    """As Spark's: initializing when first asked, then at work, or ended with an error."""

    def __init__(self, failure: str | None = None) -> None:
        self.failure = failure
        self.waits = 0

    @property
    def isActive(self) -> bool:
        return not (self.failure and self.waits > 2)

    @property
    def status(self) -> dict[str, Any]:
        does = "Initializing sources" if self.waits < 3 else "Waiting for data to arrive"
        return {"message": does}

    def awaitTermination(self, seconds: float) -> bool:
        self.waits += 1
        if not self.isActive:
            raise StreamingQueryException(self.failure)
        return False

    def exception(self) -> StreamingQueryException | None:
        return None if self.isActive else StreamingQueryException(self.failure)


def _starting(*failures: str | None) -> tuple[Any, list[_Query]]:
    made: list[_Query] = []

    def start() -> _Query:
        made.append(_Query(failures[len(made)]))
        return made[-1]

    return start, made


def test_a_worker_that_was_too_slow_is_waited_for_again() -> None:
    start, made = _starting(SLOW, SLOW, None)
    assert start_query(start) is made[2]
    assert made[2].waits == 3  # until its sources were there


def test_but_not_for_ever() -> None:
    start, made = _starting(*[SLOW] * 9)
    with pytest.raises(SetupError, match="10 seconds in 5 attempts: this machine is too busy"):
        start_query(start)
    assert len(made) == 5


def test_what_failed_otherwise_is_heard_by_who_waits_for_it() -> None:
    start, made = _starting(LOST)
    with pytest.raises(StreamingQueryException, match="were pruned"):
        start_query(start).awaitTermination(1)
    assert len(made) == 1
    assert has_ended(cast(Any, made[0]))


def test_a_query_whose_spark_is_gone_has_ended() -> None:
    class Gone:
        def awaitTermination(self, seconds: float) -> bool:
            raise ConnectionRefusedError(111, "Connection refused")

    assert has_ended(cast(Any, Gone()))


def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sharelag import stream
    from sharelag.inputs.spark import follow

    class Session:
        pass

    Session.__module__ = "pyspark.sql.connect.session"

    class TheirOwn(Session):  # as platforms make one of it
        pass

    said = r"Spark Connect .* without access to this process: do otherwise$"
    for session in (Session(), TheirOwn()):
        with pytest.raises(InputError, match=said):
            require_streams(cast(Any, session), "do otherwise")
    with pytest.raises(InputError, match=r"ask sharelag\.open\(\.\.\.\) repeatedly"):
        stream.watch("127.0.0.1:1", spark=cast(Any, Session()))
    monkeypatch.setattr(follow, "session", Session)
    said = "follow into an archive from a process with its own Spark"
    with pytest.raises(InputError, match=said):
        follow.follow(client_config("127.0.0.1:1"), tmp_path / "archive", topics=[])
    assert not (tmp_path / "archive").exists()


@pytest.mark.slow
def test_modules_are_there_without_what_came_with_pyspark_4_2() -> None:
    code = (
        "import sys, pyspark.sql.datasource; "
        "sys.modules['pyspark.sql.streaming.datasource'] = None\n"
        "from sharelag.inputs.spark import data_source, follow\n"
        "from sharelag.engine.spark import stream\n"
        "data_source.require_admission_control()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "SetupError: streams of a topic need pyspark 4.2 or newer" in answer.stderr
    assert "`sharelag capture` without --follow, or spark.read" in answer.stderr


@pytest.mark.slow
def test_modules_are_there_with_the_client_of_spark_connect_alone() -> None:
    code = (
        "import pyspark; del pyspark.TaskContext\n"
        "from sharelag.inputs.spark import follow\n"
        "from sharelag.engine.spark import stream\n"
        "print(pyspark.util.is_remote_only(), follow.follow.__name__)"
    )
    # pyspark takes itself for its client then.
    client = os.environ | {"SPARK_SKIP_CONNECT_COMPAT_TESTS": "1"}
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, env=client, capture_output=True, text=True, check=False)
    assert answer.stdout == "True follow\n", answer.stderr
