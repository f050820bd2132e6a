"""The time to run each notebook in JupyterLab, and its size when it is saved afterwards.

A notebook with one empty cell shows the share of the lab, the browser and a kernel.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat

from tests.support.browser.chromium import running_browser
from tests.support.browser.jupyter import jupyter_lab
from tests.support.notebooks.running import Running
from tests.support.notebooks.shipped import NAMES, copy_of, read

_EMPTY = "empty"


def run() -> None:
    with running_browser() as chromium, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "nb"
        folder.mkdir()
        empty = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell("")], metadata=read(NAMES[0]).metadata
        )
        nbformat.write(empty, folder / f"{_EMPTY}.ipynb")
        for name in NAMES:
            copy_of(name, folder)
        with jupyter_lab(folder) as lab:
            for name in (_EMPTY, *NAMES):
                alone = Running(lab, chromium, [name])  # otherwise the next one runs in parallel
                ran = alone.finished(name)
                print(f"{name:38} {ran.seconds:5.1f} s   {ran.size / 1000:5,.0f} kB", flush=True)
                alone.close(name)
