"""A command that takes seconds says so on a terminal, and removes the line before it answers."""

from __future__ import annotations

import io
from contextlib import ExitStack, redirect_stderr
from threading import Event
from types import SimpleNamespace

import pytest

from sharelag.cli import progress_bar
from sharelag.cli.progress_bar import reading_bar
from sharelag.inputs.spark.notice import notice

SOURCE = SimpleNamespace(size=lambda: 10)


class Terminal(io.StringIO):
    """Standard error that people look at, and that notes when something is shown."""

    def __init__(self, looked_at: bool = True) -> None:
        super().__init__()
        self.looked_at, self.shown = looked_at, Event()

    def isatty(self) -> bool:
        return self.looked_at

    def write(self, text: str) -> int:
        if "working" in text:
            self.shown.set()
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(progress_bar, "_QUIET", 0.01)
    return Terminal()


def test_what_takes_long_says_so_and_leaves_nothing_behind(terminal: Terminal) -> None:
    with redirect_stderr(terminal), reading_bar(SOURCE) as read:
        assert read is SOURCE
        assert terminal.shown.wait(60)
    written = terminal.getvalue()
    assert written.startswith("\rworking on the answer, 0 s\x1b[K")
    assert written.endswith("\r\x1b[K")
    with (
        redirect_stderr(terminal),
        pytest.raises(ValueError, match="broken"),
        reading_bar(SOURCE),
    ):
        raise ValueError("broken")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_what_is_quick_or_not_looked_at_says_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.looked_at = False
    with redirect_stderr(terminal), reading_bar(SOURCE):
        pass
    terminal.looked_at = True
    monkeypatch.setattr(progress_bar, "_QUIET", 60)
    with redirect_stderr(terminal), reading_bar(SOURCE):
        pass
    assert terminal.getvalue() == ""


def test_the_line_of_spark_stays_alone(terminal: Terminal) -> None:
    with redirect_stderr(terminal), ExitStack() as stack:
        with notice("starting Spark"):
            stack.enter_context(reading_bar(SOURCE))
            assert not terminal.shown.wait(0.5)
            assert terminal.getvalue() == "\rstarting Spark ...\x1b[K"
        assert terminal.shown.wait(60)
    assert terminal.getvalue().endswith("\r\x1b[K")
