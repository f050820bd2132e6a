"""The notebook about DataFrames gives Kafka's lag, on classic Spark and on Spark Connect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat import NotebookNode
from playwright.sync_api import Browser

from sharelag.cli.demo import CAPTURE
from sharelag.sources.inputs import CaptureInput
from sharelag.workbench import engine
from tests.support.browser.jupyter import jupyter_lab
from tests.support.connect import no_session
from tests.support.notebooks.running import Ran, Running
from tests.support.notebooks.shipped import complaints, copy_of, read, texts

NAME = "11_dataframes_and_sql"
#: What Java and Spark say whenever they start; a kernel shows it below the cell that starts them.
OF_THEIR_START = re.compile(
    r"WARNING: Using incubator modules: .*\n|Setting default log level to .*\n|To adjust logging level use .*\n"
    r"|Using Spark's default log4j profile: .*\n"
    r"|.* WARN Utils: (Your hostname, .* resolves to a loopback address|Set SPARK_LOCAL_IP if).*\n"
    r"|.* WARN Utils: Service 'SparkUI' could not bind on port .*\n"
    r"|.* WARN NativeCodeLoader: Unable to load native-hadoop library .*\n"
)


@pytest.fixture(scope="module", params=["classic", "connect"])
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> Iterator[Ran]:
    """The notebook after a run in JupyterLab, as it is."""
    remote = request.getfixturevalue("remote") if request.param == "connect" else ""
    folder = tmp_path_factory.mktemp(request.param)
    copy_of(NAME, folder)
    with jupyter_lab(folder, remote) as lab:
        running = Running(lab, browser, [NAME])
        yield running.finished(NAME)
        running.close(NAME)


def shown(notebook: NotebookNode, word: str) -> str:
    """What the one cell shows whose code has a word."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and word in cell.source]
    return "\n".join(texts(NotebookNode(cells=[cell])))


def test_it_runs_and_complains_of_nothing(ran: Ran) -> None:
    print(f"{ran.seconds:.1f} s")
    said = [OF_THEIR_START.sub("", text) for text in complaints(ran.saved)]
    assert [text for text in said if text.strip()] == []
    ran.watched.assert_quiet()


def test_lag_is_what_one_process_says(ran: Ran) -> None:
    rows = engine.lag(CaptureInput(CAPTURE), "local", by="group").table.to_pylist()
    table = shown(ran.saved, "share_partitions")
    for row in rows:
        (line,) = [line for line in table.splitlines() if f" {row['group_id']} " in line]
        lag = "NaN" if row["lag"] is None else str(row["lag"])
        assert line.split()[1:4:2] == [row["group_id"], lag] or line.split()[1:4:2] == [
            row["group_id"],
            f"{lag}.0",
        ]


def test_owners_are_joined(ran: Ran) -> None:
    rows = engine.lag(CaptureInput(CAPTURE), "local", by="group").table.to_pylist()
    lags = {row["group_id"]: row["lag"] for row in rows}
    (line,) = [
        line for line in shown(ran.saved, "owners.createOr").splitlines() if " payments " in line
    ]
    assert float(line.split()[2]) == lags["billing"] + lags["fraud-check"]


def test_the_plan_has_the_steps_that_the_text_names(ran: Ran) -> None:
    plan = shown(ran.saved, "lag.explain")
    steps = [
        re.sub(r"[^A-Za-z].*$|^[^A-Za-z]*", "", line.lstrip(" :+-"))
        for line in plan.splitlines()[1:]
    ]
    assert [step for step in steps if step in ("MapInArrow", "Exchange", "BroadcastExchange")] == [
        "MapInArrow",  # the terms of lag
        "MapInArrow",  # windows out of bytes
        "MapInArrow",  # replay
        "Exchange",  # what is left of the records, as bytes
        "MapInArrow",  # what is superseded goes
        "MapInArrow",  # decoding
        "BroadcastExchange",  # of the offsets,
        "Exchange",  # one row a topic partition
    ]


def test_workers_do_not_run_a_python_that_lacks_what_they_need(tmp_path: Path) -> None:
    """As if the system's ``python3`` had none of our packages: here it has none at all."""
    python3 = tmp_path / "python3"
    python3.write_text("#!/bin/sh\necho no package here >&2\nexit 1\n")
    python3.chmod(0o755)
    code = [cell.source for cell in read(NAME).cells if cell.cell_type == "code"]
    (last,) = [number for number, text in enumerate(code) if "sharelag.decode(raw)" in text]
    script = tmp_path / "cells.py"
    script.write_text("\n".join(code[: last + 1]) + "\nprint(records.count())\n")
    env = no_session() | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS"):
        env.pop(name, None)
    answer = subprocess.run(
        [sys.executable, str(script)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert int(answer.stdout.split()[-1]) > 1000
    assert "[Stage" not in answer.stderr
