"""Commands that go on for long while a cluster is in trouble, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Self

_COMMAND = [sys.executable, "-c", "from sharelag.cli import main; main()"]
#: Seconds that a scrape may take, whatever happens to the cluster.
SCRAPE = 1.0


class Bystander:
    """A command that goes on; if it ends, it is started again, as a supervisor would.

    Parameters
    ----------
    arguments
        Of the command.
    said
        The file that it prints to.
    """

    def __init__(self, arguments: list[str], said: Path) -> None:
        self.arguments, self.said = arguments, said
        self.ends: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.look()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def look(self) -> None:
        """Start the command unless it runs."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self.ends.append(self._process.returncode)
        with self.said.open("ab") as file:
            self._process = subprocess.Popen(
                [*_COMMAND, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End the command at once, with all of its processes."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def is_running(self) -> bool:
        """Whether the command has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The id of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def text(self) -> str:
        """Return what it has printed."""
        return self.said.read_text(errors="replace") if self.said.exists() else ""


class Exporter(Bystander):
    """`sharelag export serve`, scraped now and then.

    Parameters
    ----------
    options
        How it reaches the cluster.
    folder
        For what it says.
    known
        Lag of each partition of the group ``still``.
    """

    def __init__(self, options: list[str], folder: Path, known: dict[int, int]) -> None:
        serve = ["export", "serve", "--port", "0", "--every", "2s", *options]
        super().__init__(serve, folder / "serve.txt")
        self.known, self.slowest = known, 0.0
        self.happened: Counter[str] = Counter()
        self.wrong: list[str] = []

    def scrape(self) -> str:
        """Scrape once and judge: right numbers, or none. Empty before it listens."""
        self.look()
        found = re.search(r"http://127\.0\.0\.1:\d+", self.text())
        if not found:
            return ""
        begun = time.monotonic()
        with urllib.request.urlopen(f"{found[0]}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
        self.slowest = max(self.slowest, round(time.monotonic() - begun, 2))
        sums = {
            int(partition): int(float(lag))
            for partition, lag in re.findall(
                r'^kafka_share_group_lag\{[^}]*group="still"[^}]*partition="(\d+)"[^}]*\} (\S+)$',
                text,
                re.MULTILINE,
            )
        }
        if not sums:
            self.happened["scrapes without numbers of the cluster"] += 1
            return text
        self.happened["scrapes with numbers"] += 1
        if any(self.known[partition] != lag for partition, lag in sums.items()):
            self.wrong.append(text[:2000])
        return text


class Watcher(Bystander):
    """`sharelag lag --watch`, of which every line is judged at the end.

    Parameters
    ----------
    options, folder, known
        As for `Exporter`.
    """

    def __init__(self, options: list[str], folder: Path, known: dict[int, int]) -> None:
        asked = ["lag", "--watch", "1s", "-o", "json", "--group", "still", "--timeout", "4000"]
        super().__init__([*asked, *options], folder / "watch.txt")
        self.known = known

    def judged(self) -> tuple[int, list[str]]:
        """Return how many rows it printed, and those that are wrong."""
        rows = [line for line in self.text().splitlines() if line.startswith("{")]
        wrong = []
        for line in rows:
            with suppress(json.JSONDecodeError):  # cut where it was killed
                row = json.loads(line)
                if row["lag"] not in (None, self.known[row["partition"]]):
                    wrong.append(line)
        return len(rows), wrong
