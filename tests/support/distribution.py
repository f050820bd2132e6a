"""Which process runs which test file, when several run the tests side by side."""

import os
import re
from functools import cache
from pathlib import Path

from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[2]
#: Files that take a minute or more begin first, so that no process runs one alone at the end.
LONGEST = (
    "tests/spark/test_frames.py",
    "tests/browser/test_report.py",
    "tests/browser/test_widgets_editor.py",
    "tests/spark/test_notebooks.py",
    "tests/browser/test_charts.py",
    "tests/kafka/test_spark_source.py",
    "tests/kafka/test_every_command.py",
    "tests/kafka/test_brokers.py",
    "tests/kafka/test_archive.py",
    "tests/kafka/test_broker_killed.py",
    "tests/spark/test_equal.py",
    "tests/spark/test_raw_files.py",
    "tests/unit/test_agreement.py",
    "tests/unit/whatif/test_compiled.py",
)
#: Those that take long begin here, too; unit tests need nothing and fill what is left.
ROOMS = ("notebooks", "spark", "kafka and spark", "kafka", "browser", "widgets", "unit")
WITH_SPARK = {"spark", "kafka and spark"}
_ASKS_CONNECT = re.compile(r"\bremote: str\b")
_ASKS_SPARK = re.compile(r'\bspark: SparkSession\b|usefixtures\("spark"\)')


class ByRoom(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Files of a room run in one process while there is other work for the others.

    They share what is expensive to start: brokers, a Spark session, a Spark Connect server. Who has
    nothing left takes unit tests, before it starts what another process has already.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        mine: set[str] = set()
        others: set[str] = set()
        for each, work in self.assigned_work.items():
            rooms = {*map(room, work)}
            # Both have a Spark session, which takes 15 seconds of a processor to start and warm.
            (mine if each is node else others).update(
                rooms, WITH_SPARK if rooms & WITH_SPARK else ()
            )

        def order(file: str) -> tuple[bool, bool, bool, int, int]:
            here, place = room(file), LONGEST.index(file) if file in LONGEST else len(LONGEST)
            is_shared = here in others
            starts_another = is_shared and here != "unit"  # of the servers that somebody has
            return here not in mine, is_shared, starts_another, ROOMS.index(here), place

        self.workqueue.move_to_end(min(self.workqueue, key=order), last=False)
        super()._assign_work_unit(node)


def give_way(file: str) -> None:
    """Let a process that runs a unit test wait for those with servers, which last longest.

    Else these are left at the end, and others start the servers once more to take files of theirs.
    It stays so until the end: only who is privileged could take it back.
    """
    if room(file) in {"unit", "widgets"} and not os.nice(0):
        os.nice(10)


@cache
def room(file: str) -> str:
    """Return whose servers a test file shares: mostly those of its folder.

    Notebooks have the one Spark Connect server, so whoever asks for it goes there. The tests with a
    broker are two rooms, since they would last longest: those that need a Spark, too, which follow
    those of `tests/spark`, and those that do not.
    """
    folder, text = file.split("/")[1], (ROOT / file).read_text("utf-8")
    if _ASKS_CONNECT.search(text):
        return "notebooks"
    return "kafka and spark" if folder == "kafka" and _ASKS_SPARK.search(text) else folder
