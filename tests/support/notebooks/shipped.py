"""The notebooks that are shipped, and copies of them with other parameters."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "notebooks"
_OPENS = "sharelag.open(where, "
NAMES = sorted(path.stem for path in FOLDER.glob("[0-9]*.ipynb"))


def read(name: str) -> NotebookNode:
    """A notebook as it is shipped."""
    notebook: NotebookNode = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    return notebook


def copy_of(name: str, folder: Path, engine: str = "", **parameters: Any) -> Path:
    """Write a copy to be run with these parameters, on Spark or an ``engine``, and return it."""
    path = folder / f"{name}.ipynb"
    shipped = load_notebook_node(str(FOLDER / f"{name}.ipynb"))
    notebook = parameterize_notebook(shipped, parameters) if parameters else read(name)
    nbformat.write(_on(notebook, engine), path)
    return path


def _on(notebook: NotebookNode, engine: str) -> NotebookNode:
    """Have a notebook answer on an engine; empty: on Spark."""
    if engine:
        opens = [cell for cell in notebook.cells if _OPENS in cell.source]
        if not opens:
            raise ValueError("the notebook opens nothing whose engine could be chosen")
        for cell in opens:
            cell.source = cell.source.replace(_OPENS, f"{_OPENS}engine={engine!r}, ")
    return notebook


def papermill(
    name: str,
    folder: Path,
    remote: str,
    *,
    cells: int | None = None,
    engine: str = "",
    env: Mapping[str, str] | None = None,
    **parameters: Any,
) -> NotebookNode:
    """Run a notebook with papermill in its own process.

    ``folder``: where the notebook goes. ``remote``: the Spark Connect server of its kernel; empty:
    the kernel starts a Spark. ``cells``: how many of its code cells run; all by default.
    ``engine``: instead of Spark. ``env``: in place of this process's environment. ``parameters``:
    in place of the notebook's.
    """
    shipped, out = folder / f"{name}-shipped.ipynb", folder / f"{name}.ipynb"
    notebook = _on(read(name), engine)
    last = [n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code"][:cells][-1]
    notebook.cells = notebook.cells[: last + 1]
    nbformat.write(notebook, shipped)
    command = [sys.executable, "-m", "papermill", str(shipped), str(out), "-k", "python3"]
    command += [word for key, value in parameters.items() for word in ("-r", key, str(value))]
    env = {**(os.environ if env is None else env), "IPYTHONDIR": str(folder / "ipython")}
    env |= {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    env |= {"SPARK_REMOTE": remote} if remote else {}
    # Kernels that see it do not show what other processes write to stderr.
    env.pop("PYTEST_CURRENT_TEST", None)
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
    ran: NotebookNode = nbformat.read(out, as_version=4)
    return ran


def complaints(notebook: NotebookNode) -> list[str]:
    """Errors, and what cells wrote to stderr."""
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    errors = [f"{one.ename}: {one.evalue}" for one in outputs if one.output_type == "error"]
    return errors + [one.text for one in outputs if one.get("name") == "stderr"]


def texts(notebook: NotebookNode) -> list[str]:
    """What each output of a run says as plain text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]
