"""Commands that go on for long while a cluster is in trouble, each in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from sharelag.model import SharePartition
from sharelag.wire import state_partition

_COMMAND = [sys.executable, "-c", "from sharelag.cli import main; main()"]
#: Seconds that a scrape may take, whatever happens to the cluster.
SCRAPE = 1.0


def lacks_untold(rows: list[dict[str, Any]], known: set[int], state_partitions: int) -> bool:
    """Return whether rows of a group lack some that they should have, or do not say so.

    ``rows``: of one answer about it, one at least. ``known``: partitions that a whole answer has.
    ``state_partitions``: partitions of the state topic.
    """
    there = [row["partition"] for row in rows]
    unread = {tuple(row.get("unread_state_partitions", ())) for row in rows}
    marks = {row.get("complete", True) for row in rows}
    if len(unread) != 1 or marks != {unread == {()}}:
        return True  # a row says something else than the others
    (silent,) = unread
    group, topic = rows[0]["group_id"], rows[0]["topic_id"]
    readable = {
        p
        for p in known
        if state_partition(SharePartition(group, topic, p), state_partitions) not in silent
    }
    return sorted(there) != sorted(readable)


class Bystander:
    """A command that goes on; if it ends, it is started again, as a supervisor would.

    ``arguments``: of the command. ``said``: the file that it prints to.
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
            command = [*_COMMAND, *self.arguments]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )

    def kill(self) -> None:
        """End the command at once, with all of its processes."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def is_running(self) -> bool:
        """Return whether the command has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def text(self) -> str:
        """Return what it has printed."""
        return self.said.read_text(errors="replace") if self.said.exists() else ""


class Exporter(Bystander):
    """`sharelag export serve`, scraped now and then.

    ``options``: how it reaches the cluster. ``folder``: for what it says. ``known``: lag of each
    partition of the group ``still``.
    """

    def __init__(self, options: list[str], folder: Path, known: dict[int, int]) -> None:
        serve = ["export", "serve", "--port", "0", "--every", "2s", *options]
        super().__init__(serve, folder / "serve.txt")
        self.known, self.slowest = known, 0.0
        self.happened: Counter[str] = Counter()
        self.wrong: list[str] = []

    def get(self, path: str, token: str = "") -> str:
        """Return headers and body of its answer, of a refusal, too. Empty before it listens."""
        self.look()
        found = re.search(r"http://127\.0\.0\.1:\d+", self.text())
        if not found:
            return ""
        ask = urllib.request.Request(found[0] + path, headers={"Authorization": f"Bearer {token}"})
        begun = time.monotonic()
        try:
            answer = urllib.request.urlopen(ask, timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = f"{answer.headers}{answer.read().decode()}"
        self.slowest = max(self.slowest, round(time.monotonic() - begun, 2))
        return text

    def scrape(self) -> str:
        """Scrape once and judge what came. Empty before it listens."""
        text = self.get("/metrics")
        if text:
            self.judge(text)
        return text

    def judge(self, text: str) -> None:
        """Count a scrape: right numbers, or none, and a sum only where nothing is missing."""
        lags = {
            int(partition): int(float(lag))
            for partition, lag in re.findall(
                r'^kafka_share_group_lag\{[^}]*group="still"[^}]*partition="(\d+)"[^}]*\} (\S+)$',
                text,
                re.MULTILINE,
            )
        }
        sums = re.findall(r'^kafka_share_group_sum_lag\{group="still"\} (\S+)$', text, re.MULTILINE)
        if not lags and not sums:
            self.happened["scrapes without numbers of the cluster"] += 1
            return
        is_whole = lags == self.known and [float(one) for one in sums] == [sum(lags.values())]
        is_part = lags.items() < self.known.items() and not sums
        if is_whole:
            self.happened["scrapes with all numbers"] += 1
        elif is_part:
            self.happened["scrapes with some numbers and no sum"] += 1
        else:
            self.wrong.append(text[:2000])


class Watcher(Bystander):
    """`sharelag lag --watch`, of which every line is judged at the end.

    ``options``, ``folder``, ``known``: as for `Exporter`. ``state_partitions``: partitions of the
    state topic.
    """

    def __init__(
        self, options: list[str], folder: Path, known: dict[int, int], state_partitions: int
    ) -> None:
        asked = ["lag", "--watch", "1s", "-o", "json", "--group", "still", "--timeout", "4000"]
        super().__init__([*asked, *options], folder / "watch.txt")
        self.known, self.state_partitions = known, state_partitions

    def judged(self) -> tuple[Counter[str], list[str]]:
        """Return how many answers it printed of each kind, and those that are wrong."""
        rows = []
        for line in self.text().splitlines():
            if line.startswith("{"):
                with suppress(json.JSONDecodeError):  # cut where it was killed
                    rows.append(json.loads(line))
        rounds = [list(one) for _, one in groupby(rows, lambda row: row["as_of"])]
        happened: Counter[str] = Counter()
        wrong = []
        for one in rounds[:-1]:  # the last may still be written
            if lacks_untold(one, set(self.known), self.state_partitions) or any(
                row["lag"] not in (None, self.known[row["partition"]]) for row in one
            ):
                wrong.append(json.dumps(one))
            elif "complete" in one[0]:
                happened["answers of lag --watch marked as incomplete"] += 1
            else:
                happened["whole answers of lag --watch"] += 1
        return happened, wrong
