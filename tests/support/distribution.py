"""Which process runs which test file, when several run the tests side by side."""

from __future__ import annotations

from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

#: Files that take a minute or more begin first, so that no process runs one alone at the end.
LONGEST = (
    "tests/notebooks/test_lab.py",
    "tests/spark/test_frames.py",
    "tests/browser/test_report.py",
    "tests/browser/test_widgets_editor.py",
    "tests/spark/test_collected.py",
    "tests/kafka/test_check_live.py",
    "tests/spark/test_notebooks.py",
    "tests/browser/test_charts.py",
    "tests/kafka/test_spark_source.py",
    "tests/kafka/test_archive.py",
    "tests/browser/test_widgets_lab.py",
    "tests/spark/test_equal.py",
    "tests/kafka/test_report_live.py",
    "tests/widgets/test_dashboards_kept.py",
    "tests/unit/whatif/test_compiled.py",
    "tests/unit/whatif/test_simulate.py",
    "tests/unit/reports/test_reports.py",
)
#: Long ones first here, too; unit tests need nothing and fill what is left.
FOLDERS = ("notebooks", "spark", "kafka", "browser", "widgets", "unit")


class ByFolder(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Files of a folder run in one process while there is other work for the others.

    They share what is expensive to start: a broker, a Spark session, a Spark Connect server.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        mine: set[str] = set()
        others: set[str] = set()
        for each, work in self.assigned_work.items():
            (mine if each is node else others).update(map(folder, work))

        def order(file: str) -> tuple[bool, bool, int, int]:
            room = folder(file)
            place = LONGEST.index(file) if file in LONGEST else len(LONGEST)
            return room not in mine, room in others, FOLDERS.index(room), place

        self.workqueue.move_to_end(min(self.workqueue, key=order), last=False)
        super()._assign_work_unit(node)


def folder(file: str) -> str:
    """Return the folder of tests in which a file lies."""
    return file.split("/")[1]
