"""`make lab`: JupyterLab on copies of the notebooks, the first of which has been run already.

Notebooks are stored without outputs, so they would open with empty cells. Here the first one runs
in the kernel of its JupyterLab session before the page opens: its outputs come from this machine,
and its dashboards respond. Copies in ``out/lab`` are yours to edit; an unedited copy is updated
with its notebook.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import posixpath
import re
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.paths import jupyter_runtime_dir
from jupyter_server.serverapp import list_running_servers
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.sign import NotebookNotary

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
#: Initial settings of JupyterLab: no question about news over the first dashboard. The user's own
#: settings take precedence.
SETTINGS = ROOT / "tools" / "jupyter"
FIRST = "00_start_here.ipynb"
#: Seconds to wait for a response of the server, or of a kernel.
PATIENCE = 60
#: Seconds for JupyterLab to end its kernels: five for each, concurrently.
GRACE = 10
#: Seconds for a cell: the first one that reads data starts Spark.
CELL_PATIENCE = 300
#: Metadata key of a copy for the digest of its original.
_NOTE = "sharelag"
#: A Markdown link to a file.
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


class Server(NamedTuple):
    """A running JupyterLab."""

    url: str
    token: str
    root: Path
    process: subprocess.Popen[bytes]

    def place(self, path: Path) -> str:
        """Return the server's path of a file."""
        return path.resolve().relative_to(self.root.resolve()).as_posix()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Post a request to the server."""
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        asked = urllib.request.Request(  # noqa: S310
            f"{self.url}{path}", json.dumps(body).encode(), headers
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310
            return json.load(answer)


def main(folder: Path, *arguments: str) -> int:
    """Copy the notebooks, start JupyterLab, run the first notebook and open it."""
    edited = copies(folder)
    with started(ROOT, *arguments) as server:
        place = server.place(folder / FIRST)
        page = f"{server.url}lab/tree/{place}?token={server.token}"
        if FIRST not in edited:
            print(f"running {place}, so that it opens with its answers ...", flush=True)
            if said := run(server, folder / FIRST):
                print(f"{place} failed ({said}): `sharelag doctor` checks this machine")
        print(f"JupyterLab: {page}\nCtrl-C ends it.", flush=True)
        webbrowser.open(page)
        return server.process.wait()


def copies(folder: Path, notebooks: Path = NOTEBOOKS) -> set[str]:
    """Copy the notebooks that are new, or that changed while their copies were not edited.

    Returns
    -------
    set of str
        The names of edited copies, which are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    edited = set()
    for path in sorted(notebooks.glob("[0-9]*.ipynb")):
        notebook, there = _with_links(path, folder), folder / path.name
        if there.exists():
            copy = nbformat.read(there, as_version=4)
            was = copy.metadata.get(_NOTE, {}).get("copied")
            if was != _digest(copy):
                edited.add(path.name)
                continue
            if was == _digest(notebook):
                continue
        notebook.metadata[_NOTE] = {"copied": _digest(notebook)}
        nbformat.write(notebook, there)
    return edited


def _with_links(path: Path, folder: Path) -> NotebookNode:
    """Read a notebook; its links to files that are not copied are adapted to the folder."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    away = Path(os.path.relpath(path.parent.resolve(), folder.resolve())).as_posix()

    def led(link: re.Match[str]) -> str:
        is_copied = "/" not in link[1] and link[1][:1].isdigit()
        return link[0] if is_copied else f"]({posixpath.normpath(posixpath.join(away, link[1]))}"

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _LINK.sub(led, cell.source)
    return notebook


def _digest(notebook: NotebookNode) -> str:
    """Return a digest that changes when a cell is edited, but not when the notebook runs."""
    cells = [(cell.cell_type, cell.source) for cell in notebook.cells]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


@contextmanager
def started(root: Path, *arguments: str) -> Iterator[Server]:
    """Start JupyterLab without a page, and end it."""
    token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--ServerApp.root_dir={root}"]
    command += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
    command += ["--ServerApp.log_level=WARN", *arguments]
    known = os.environ.get("JUPYTER_CONFIG_PATH")
    paths = os.pathsep.join([*([known] if known else []), str(SETTINGS)])
    env = {"JUPYTER_TOKEN": token, "JUPYTER_CONFIG_PATH": paths}
    process = subprocess.Popen(command, env=os.environ | env)
    try:
        yield Server(_address(process), token, root, process)
    except KeyboardInterrupt:
        print()
    finally:
        end(process)


def end(process: subprocess.Popen[bytes], grace: float = GRACE) -> None:
    """End a server, which ends its kernels; kill it if it does not within the grace period.

    JupyterLab 4.6 often stops its loop when it has ended its kernels, and then waits for a thread
    that read files, which waits for more work from the loop.
    """
    process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes]) -> str:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise SystemExit("JupyterLab did not start, see above")
        for server in list_running_servers():
            if server["pid"] == process.pid and _listens(url := str(server["url"])):
                return url
        time.sleep(0.2)
    raise SystemExit(f"JupyterLab did not answer within {PATIENCE} s")


def _listens(url: str) -> bool:
    """Return whether a server responds: it writes its address before it does."""
    try:
        with urllib.request.urlopen(f"{url}api", timeout=PATIENCE):  # noqa: S310
            return True
    except urllib.error.HTTPError:  # it requires a token
        return True
    except OSError:
        return False


def run(server: Server, path: Path) -> str | None:
    """Run a notebook in a kernel that the server keeps for its page.

    Returns
    -------
    str or None
        The reason for a failure.
    """
    asked = {
        "path": server.place(path),
        "name": path.name,
        "type": "notebook",
        "kernel": {"name": "python3"},
    }
    kernel = server.post("api/sessions", asked)["kernel"]["id"]
    notebook = nbformat.read(path, as_version=4)
    failure = None
    try:
        asyncio.run(_run(notebook, Path(jupyter_runtime_dir(), f"kernel-{kernel}.json")))
    except CellExecutionError as error:
        failure = f"{error.ename}: {error.evalue}"
    except (CellTimeoutError, DeadKernelError, RuntimeError) as error:
        failure = next(iter(str(error).splitlines()), type(error).__name__)
    nbformat.write(notebook, path)
    # Pages only show outputs of trusted notebooks.
    notary = NotebookNotary()
    notary.sign(notebook)
    notary.store.close()
    return failure


class _TheServers(AsyncKernelManager):
    """The manager of a kernel that the server has started, and ends."""

    has_kernel = True


class _Client(AsyncKernelClient):
    """A client of such a kernel that tolerates heartbeats a second late, as on a busy machine."""

    async def is_alive(self) -> bool:
        return True


async def _run(notebook: NotebookNode, connection: Path) -> None:
    client = _Client(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels(hb=False)
    try:
        await client.wait_for_ready(timeout=PATIENCE)
        # The page gets the state of widgets from the kernel.
        running = NotebookClient(
            notebook, km=_TheServers(), store_widget_state=False, timeout=CELL_PATIENCE
        )
        running.kc = client
        await running.async_execute()
    finally:
        client.stop_channels()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
