"""A real JupyterLab: a server with its own folders and port, and queries of its pages."""

import http.client
import json
import os
import secrets
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from playwright.sync_api import Browser, Page

from tests.support.browser.desk import BIN, ROOT, Watched
from tests.support.ports import free_port

#: The kernel of the notebook in sight has nothing to do.
IDLE = (
    "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
)
#: How often to look while a kernel works, in ms: a look at each frame, as by default, takes 0.6 CPU
#: seconds in twelve even where the page is empty, instead of 0.03.
NOW_AND_THEN = 200
#: What a lab keeps of a theme that somebody chose, within its settings.
_THEMES = "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
_OPEN_TO_READ = """path => window.jupyterapp.commands.execute('docmanager:open',
    { path, factory: 'Notebook', kernelPreference: { shouldStart: false, canStart: false } })"""
_THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"


class Lab(NamedTuple):
    """A running JupyterLab."""

    url: str
    token: str
    folder: Path

    def page(self, browser: Browser) -> Watched:
        """Open an empty page for a notebook, in the context of all of them.

        JupyterLab is loaded from its cache then, and compiled once. People are in Berlin there, so
        that their time is not UTC.
        """
        return Watched(browser, site=f"{self.url}/api", timezone_id="Europe/Berlin")

    def open(self, watched: Watched, notebook: str) -> Page:
        """Open a notebook in the light theme, and wait for its kernel."""
        page = self._start(watched, notebook, f"/tree/{notebook}")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        page.wait_for_function(
            """async () => { const shown = window.jupyterapp.shell.currentWidget;
            if (!shown?.sessionContext) return false;
            await shown.sessionContext.ready; return shown.sessionContext.session?.kernel?.status === 'idle'; }""",
            polling=NOW_AND_THEN,
        )
        return page

    def open_without_kernel(self, watched: Watched, notebook: str) -> Page:
        """Open a notebook in the light theme, as somebody does who only reads it."""
        page = self._start(watched, notebook)
        page.evaluate(_OPEN_TO_READ, notebook)
        page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        return page

    def trust(self, notebook: str) -> None:
        """Let the lab show all outputs of a notebook, as it does for who has run it there."""
        data = _settings_of(self.folder).parent / "data"
        command = [str(BIN / "jupyter-trust"), str(self.folder / notebook)]
        subprocess.run(command, check=True, env=os.environ | {"JUPYTER_DATA_DIR": str(data)})

    def _start(self, watched: Watched, notebook: str, place: str = "") -> Page:
        # The lab keeps the theme that the last test of another notebook chose.
        (_settings_of(self.folder) / _THEMES).unlink(missing_ok=True)
        page = watched.page
        # A workspace for each: the lab would load again where another page of the browser has it.
        space = notebook.removesuffix(".ipynb").replace("/", "-")
        where = f"{self.url}/lab/workspaces/{space}{place}"
        page.goto(f"{where}?token={self.token}&reset")
        page.wait_for_function("() => window.jupyterapp?.started", polling=NOW_AND_THEN)
        return page

    def end(self, session: str) -> None:
        """End a kernel's session without waiting: Jupyter gives the kernel seconds to end."""
        server = http.client.HTTPConnection(self.url.removeprefix("http://"))
        token = {"Authorization": f"token {self.token}"}
        server.request("DELETE", f"/api/sessions/{session}", headers=token)
        server.close()

    def write(self, name: str, cells: Sequence[str]) -> None:
        """Write a notebook of these code cells into the folder."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook.metadata["kernelspec"] = kernel
        nbformat.write(notebook, self.folder / f"{name}.ipynb")


@contextmanager
def jupyter_lab(folder: Path, remote: str = "") -> Iterator[Lab]:
    """A JupyterLab over the notebooks in a folder; its settings go to a folder beside it.

    ``remote``: the Spark Connect server of its kernels; without it, each starts a Spark of its own.
    """
    settings = _settings_of(folder)
    apart = settings.parent
    _write_settings(settings)
    env = {"JUPYTERLAB_SETTINGS_DIR": str(settings)}
    env["JUPYTERLAB_WORKSPACES_DIR"] = str(apart / "workspaces")
    env |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'widgets'}"} | on_spark(remote)
    port, token = free_port(), secrets.token_hex(16)
    command = ["jupyter-lab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command.append(f"--IdentityProvider.token={token}")
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
    command += ["--KernelManager.transport=ipc", "--LabApp.news_url=None"]
    url = f"http://127.0.0.1:{port}"
    with jupyter_server(command, env, folder, apart, f"{url}/api?token={token}"):
        yield Lab(url, token, folder)


@contextmanager
def voila_over(folder: Path, apart: Path, remote: str = "") -> Iterator[str]:
    """Yield the address of a Voila over the notebooks in a folder, started as `make pages` does."""
    port = free_port()
    command = ["voila", str(folder), "--no-browser", f"--port={port}"]
    command += [f"--Voila.config_file_paths={ROOT / 'widgets/voila'}"]
    url = f"http://127.0.0.1:{port}"
    env = {"JUPYTER_PATH": str(ROOT / "widgets")} | on_spark(remote)
    with jupyter_server(command, env, apart, apart, url):
        yield url


def on_spark(remote: str) -> dict[str, str]:
    """Return what names the Spark Connect server of kernels; empty: each starts a Spark."""
    return {"SPARK_REMOTE": remote} if remote else {}


def change_theme(page: Page, theme: str, shown: str, arg: Any) -> None:
    """Change the theme of the lab, and wait until a condition says that it is shown."""
    page.evaluate(_THEME, theme)
    page.wait_for_function(shown, arg=arg)
    # The lab takes its splash away a moment later, and fails to when another change has shown it
    # again by then.
    page.wait_for_function("!document.querySelector('#jupyterlab-splash')")


@contextmanager
def jupyter_server(
    command: Sequence[str], env: Mapping[str, str], folder: Path, apart: Path, ready: str
) -> Iterator[None]:
    """Start a Jupyter server in a folder; its own files go to ``apart``. Kernels end with it."""
    from tools import lab  # all of Jupyter's server, which each process of tests would import

    folders = {f"JUPYTER_{name}_DIR": str(apart / name.lower()) for name in ("CONFIG", "DATA")}
    env = os.environ | folders | dict(env)
    env |= {"IPYTHONDIR": str(apart / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    env |= {"JUPYTER_PREFER_ENV_PATH": "1", "PATH": f"{BIN}:{os.environ['PATH']}"}
    # Kernels that see it do not show what other processes write to stderr.
    env.pop("PYTEST_CURRENT_TEST", None)
    # The path of a kernel's socket may have 107 bytes, and folders of tests lie deep.
    with tempfile.TemporaryDirectory(prefix="sl-", ignore_cleanup_errors=True) as runtime:
        env["JUPYTER_RUNTIME_DIR"] = runtime
        apart.mkdir(exist_ok=True)
        log = apart / "server.log"
        with log.open("wb") as out:
            server = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                env=env,
                cwd=folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _wait_for(ready, server, log)
            yield
        finally:
            lab.end(server)


def show_all_cells(settings: Path) -> None:
    """Have all cells of a notebook in the page: by default those out of sight are not."""
    _write(settings, {"@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"}})


def _settings_of(folder: Path) -> Path:
    """Return where the lab over a folder of notebooks keeps its settings."""
    return folder.parent / f"{folder.name}-jupyter" / "settings"


def _write_settings(folder: Path) -> None:
    show_all_cells(folder)
    quiet = {"checkForUpdates": False, "doNotDisturbMode": True, "fetchNews": "false"}
    wanted = {"@jupyterlab/apputils-extension/notification": quiet}
    # What a view holds is saved with the notebook.
    wanted["@jupyter-widgets/jupyterlab-manager/plugin"] = {"saveState": True}
    _write(folder, wanted)


def _write(folder: Path, wanted: Mapping[str, Any]) -> None:
    for name, setting in wanted.items():
        path = folder / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(setting))


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(
                f"The server ended with code {server.returncode}:\n{log.read_text()[-3000:]}"
            )
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise TimeoutError(
        f"The server did not answer within {seconds:.0f} s:\n{log.read_text()[-3000:]}"
    )
