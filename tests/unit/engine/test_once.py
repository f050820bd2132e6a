"""Each question to a reading is answered once, and waits for no other question."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sharelag.engine.once import Once
from sharelag.workbench import Workbench
from tests.support.written_input import Write, WrittenInput


def test_an_answer_is_kept_and_a_failure_is_not() -> None:
    once = Once()
    with pytest.raises(ZeroDivisionError):
        once("a", lambda: 1 // 0)
    assert "a" not in once
    assert (once("a", lambda: 1), once("a", lambda: 2), once("b", lambda: 3)) == (1, 1, 3)
    assert "a" in once


def test_an_answer_may_need_another_one() -> None:
    once = Once()
    assert once("a", lambda: once("b", lambda: 1) + once("a's part", lambda: 1)) == 2


class Waits(WrittenInput):
    """An input that reads its records when it may."""

    may: threading.Event | None = None

    def batches(self, topic: str) -> Any:
        if self.may is not None:
            self.asked.append("waits")
            assert self.may.wait(600)
        return super().batches(topic)


def test_a_question_waits_for_no_other_and_is_computed_once() -> None:
    source = Waits([Write(5, 10), Write(3, 12)])
    bench = Workbench(source, engine="local")
    bench.evidence()
    source.may = threading.Event()
    answers: list[Any] = []
    slow = [
        threading.Thread(target=lambda: answers.append(bench.moments("billing"))) for _ in range(2)
    ]
    quick = threading.Thread(target=lambda: answers.append(bench.lag()))
    try:
        for thread in (*slow, quick):
            thread.start()
        quick.join(300)
        assert not quick.is_alive()
        assert len(answers) == 1
    finally:
        source.may.set()
        for thread in (*slow, quick):
            thread.join(300)  # a kernel may have to be compiled first
    assert len(answers) == 3
    assert answers[1].table.equals(answers[2].table)
    assert source.asked.count("waits") == 1
