"""The notebooks that are shipped, and copies of them with other parameters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("[0-9]*.ipynb"))


def read(name: str) -> NotebookNode:
    """A notebook as it is shipped."""
    notebook: NotebookNode = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    return notebook


def copy_of(name: str, folder: Path, **parameters: Any) -> Path:
    """A copy to be run, with these parameters in place of its own."""
    path = folder / f"{name}.ipynb"
    shipped = load_notebook_node(str(FOLDER / f"{name}.ipynb"))
    nbformat.write(parameterize_notebook(shipped, parameters) if parameters else read(name), path)
    return path


def papermill(name: str, folder: Path, remote: str, **parameters: Any) -> NotebookNode:
    """Run a notebook with papermill and these parameters, in its own process, on Spark Connect."""
    out = folder / f"{name}.ipynb"
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(FOLDER / f"{name}.ipynb"),
        str(out),
        "-k",
        "python3",
    ]
    command += [word for key, value in parameters.items() for word in ("-r", key, str(value))]
    env = os.environ | {
        "IPYTHONDIR": str(folder / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    env |= {"SPARK_REMOTE": remote}
    done = subprocess.run(
        [*command, "--no-progress-bar"],
        capture_output=True,
        text=True,
        timeout=400,
        env=env,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"papermill could not run {name}:\n{done.stderr[-3000:]}")
    notebook: NotebookNode = nbformat.read(out, as_version=4)
    return notebook


def complaints(notebook: NotebookNode) -> list[str]:
    """Errors, and what cells wrote to stderr."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    errors = [
        f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"
    ]
    return errors + [output.text for output in outputs if output.get("name") == "stderr"]


def texts(notebook: NotebookNode) -> list[str]:
    """What each output of a run says as plain text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs
    ]
