"""The notebook about DataFrames gives Kafka's lag, on classic Spark and on Spark Connect."""

import os
import re
from pathlib import Path

import pytest
from nbformat import NotebookNode

from sharelag.cli.demo import CAPTURE
from sharelag.inputs import CaptureInput
from tests.support import readings
from tests.support.connect import no_session
from tests.support.notebooks.shipped import complaints, papermill, texts

#: In a usual run tests/spark/test_frames.py asks the same of DataFrames, without a notebook.
pytestmark = pytest.mark.exhaustive
NAME = "11_dataframes_and_sql"
#: What Java and Spark say whenever they start; a kernel shows it below the cell that starts them.
OF_THEIR_START = re.compile(
    r"WARNING: Using incubator modules: .*\n|Setting default log level to .*\n|To adjust logging "
    r"level use .*\n"
    r"|Using Spark's default log4j profile: .*\n"
    r"|.* WARN Utils: (Your hostname, .* resolves to a loopback address|Set SPARK_LOCAL_IP if).*\n"
    r"|.* WARN Utils: Service 'SparkUI' could not bind on port .*\n"
    r"|.* WARN NativeCodeLoader: Unable to load native-hadoop library .*\n"
)


@pytest.fixture(scope="module", params=["classic", "connect"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    """The notebook after a run as it is, where the ``python3`` of the system has no packages."""
    remote = request.getfixturevalue("remote") if request.param == "connect" else ""
    folder = tmp_path_factory.mktemp(request.param)
    return papermill(NAME, folder, remote, env=_without_packages(folder))


def _without_packages(folder: Path) -> dict[str, str]:
    """An environment whose ``python3`` fails, without another one for Spark's workers."""
    python3 = folder / "bin" / "python3"
    python3.parent.mkdir()
    python3.write_text("#!/bin/sh\necho no package here >&2\nexit 1\n")
    python3.chmod(0o755)
    named = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS")
    env = {name: value for name, value in no_session().items() if name not in named}
    return env | {"PATH": f"{python3.parent}:{os.environ['PATH']}"}


def shown(notebook: NotebookNode, word: str) -> str:
    """What the one cell shows whose code has a word."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and word in cell.source]
    return "\n".join(texts(NotebookNode(cells=[cell])))


def test_it_runs_and_complains_of_nothing(ran: NotebookNode) -> None:
    said = [OF_THEIR_START.sub("", text) for text in complaints(ran)]
    assert [text for text in said if text.strip()] == []


def test_workers_run_the_python_that_has_what_they_need(ran: NotebookNode) -> None:
    decoded = shown(ran, "sharelag.decode(raw)").splitlines()
    assert [line.split()[0] for line in decoded[-5:]] == list("01234")


def test_lag_is_what_one_process_says(ran: NotebookNode) -> None:
    rows = readings.lag(CaptureInput(CAPTURE), "local", by="group").table.to_pylist()
    table = shown(ran, "share_partitions")
    for row in rows:
        (line,) = [line for line in table.splitlines() if f" {row['group_id']} " in line]
        lag = "NaN" if row["lag"] is None else str(row["lag"])
        assert line.split()[1:4:2] == [row["group_id"], lag] or line.split()[1:4:2] == [
            row["group_id"],
            f"{lag}.0",
        ]


def test_owners_are_joined(ran: NotebookNode) -> None:
    rows = readings.lag(CaptureInput(CAPTURE), "local", by="group").table.to_pylist()
    lags = {row["group_id"]: row["lag"] for row in rows}
    (line,) = [line for line in shown(ran, "owners.createOr").splitlines() if " payments " in line]
    assert float(line.split()[2]) == lags["billing"] + lags["checkout"]


def test_the_plan_has_the_texts_steps(ran: NotebookNode, request: pytest.FixtureRequest) -> None:
    beside = ["Project"] if "connect" in request.node.callspec.id else []
    steps = re.findall(r"[A-Z]\w+", shown(ran, ".explain(").partition("\n")[2])
    assert [step for step in steps if step != "AdaptiveSparkPlan"] == [
        *("MapInArrow", *beside),  # decoding, replay and terms of lag
        "Exchange",  # the records, as bytes
        *("MapInArrow", "Project", "Filter", "Scan"),  # packing
    ]
