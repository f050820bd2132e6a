"""Run a notebook with papermill, in a kernel of this Python, and leave no secrets in it.

Client settings are kept out of the notebook. A secret may equal a key of nbformat, a MIME type or a
level, so texts are masked but the structure is not.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, Self

from sharelag.errors import NoLeaderError
from sharelag.reports.blocks import DARK_MIME, PLOTLY_MIME, VERDICT_MIME, VIEW_MIME, is_time
from sharelag.reports.secrets import PROPERTIES, mask_strings, masker, scrub

_LOG = logging.getLogger(__name__)
#: The default time limit of a cell; an unattended run must end.
CELL_SECONDS = 3600
#: Seconds after which a running cell is announced.
QUIET_SECONDS = 2.0
#: Seconds after which a running cell is announced again.
AGAIN_SECONDS = 10.0
_LOOK_SECONDS = 0.5
#: The path of a Unix socket has at most 107 bytes.
_LONGEST_FOLDER = 80
#: JSON with fixed keys; in other JSON a key may be a secret as well.
_OURS = (VERDICT_MIME, PLOTLY_MIME, DARK_MIME)
#: Keys whose values are words of a format or base64 numbers, never input.
_WORDS = frozenset(
    {
        *("format", "engine", "level", "severity", "level_before", "cause"),
        *("type", "mode", "dtype", "bdata"),
    }
)
#: Metadata that tools need to run and show a notebook.
_ABOUT = frozenset({"tags", "kernelspec", "language_info"})
_Mask = Callable[[str], str]


class Executed(NamedTuple):
    """An executed notebook, without secrets."""

    notebook: Any  # nbformat.NotebookNode
    error: str | None  # one line; None: it ran to its end
    in_part: bool = False  # it failed because only a part of the input can be read

    @property
    def verdict(self) -> dict[str, Any] | None:
        """Its verdict; None if it failed before that."""
        outputs = (output for cell in self.notebook.cells for output in cell.get("outputs", []))
        forms = (output.get("data", {}) for output in outputs)
        found = [data[VERDICT_MIME] for data in forms if VERDICT_MIME in data]
        return found[-1] if found else None


def execute(
    path: Path,
    out: Path,
    parameters: Mapping[str, Any],
    properties: Mapping[str, str],
    secrets: Iterable[str],
    cell_seconds: int = CELL_SECONDS,
    progress: Callable[[str], None] | None = None,
) -> Executed:
    """Run a notebook, and write it to ``out`` cell by cell, also after a failure.

    ``parameters`` must not hold secrets. Client ``properties`` are passed in the kernel's
    environment, so they are never written down; ``secrets`` are removed from the executed notebook.
    A cell that takes longer than ``cell_seconds`` fails. ``progress`` receives a line about the
    cell that runs, seconds after the one before, also from another thread while the cell lasts.
    """
    # These imports take a second; commands that only list reports need not wait for them.
    import nbformat
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from traitlets.config import Config

    error, in_part = None, False
    try:
        # Next to the notebook, so that both are removed together after a kill.
        near = out.resolve().parent if len(str(out.resolve().parent)) < _LONGEST_FOLDER else None
        with (
            TemporaryDirectory(prefix=".k-", dir=near, ignore_cleanup_errors=True) as private,
            _environment(properties, private),
        ):
            # Sockets in a private folder instead of ports, which every user of the machine could
            # connect to. The default is the working directory, where runs would collide.
            sockets = {"transport": "ipc", "ip": f"{private}/kernel"}
            sockets["connection_file"] = f"{private}/kernel.json"
            config = Config(KernelManager=sockets)
            papermill.execute_notebook(
                path,
                out,
                dict(parameters),
                kernel_name="python3",
                language="python",
                engine_name=_engine(progress),
                progress_bar=False,
                config=config,
                execution_timeout=cell_seconds,
                # The notebook contains the details of a failure.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
    except papermill.PapermillExecutionError as failed:
        in_part = failed.ename == NoLeaderError.__name__
        error = _message(failed.ename, failed.evalue)
    except DeadKernelError:
        more = "report on fewer groups, or give it more memory"
        error = f"the kernel died, probably out of memory: {more}"
    except CellTimeoutError:
        error = (
            f"a cell took more than {cell_seconds} s: report on fewer groups or on a shorter "
            "time, or raise the limit (--cell-timeout)"
        )
    except Exception as failed:  # also reported for a kernel that does not start
        if isinstance(failed, OSError) and failed.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # a full disk has no room for a report either
        _LOG.debug("the notebook could not be run", exc_info=True)
        error = _message(type(failed).__name__, str(failed))
    ran = nbformat.read(out if out.exists() else path, as_version=4)
    # The report shows a failure itself; papermill marks it with additional cells.
    tag = "papermill-error-cell-tag"
    ran.cells = [one for one in ran.cells if tag not in one.metadata.get("tags", [])]
    clean = scrub_notebook(ran, secrets)
    out.write_text(nbformat.writes(clean) + "\n", "utf-8")
    return Executed(clean, None if error is None else scrub(error, secrets), in_part)


def _engine(progress: Callable[[str], None] | None) -> str | None:
    """Return the papermill engine that announces running cells; None for the silent default."""
    if progress is None:
        return None
    from papermill.engines import NBClientEngine, papermill_engines

    say = progress

    class Telling(NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
            start, narrator = nb_man.cell_start, _Telling(say, len(nb_man.nb.cells))

            def cell_start(cell: Any, cell_index: int | None = None, **more: Any) -> Any:
                if cell_index is not None:
                    narrator.begin(cell_index + 1)
                return start(cell, cell_index, **more)

            nb_man.cell_start = cell_start
            with narrator:
                return super().execute_managed_notebook(nb_man, kernel_name, **options)

    papermill_engines.register("sharelag", Telling)
    return "sharelag"


class _Telling:
    """Announces the running cell when it begins, and again while it lasts."""

    def __init__(self, say: Callable[[str], None], cells: int) -> None:
        self._say, self._cells, self._cell = say, cells, 0
        self._begun = self._last = time.monotonic()
        self._quiet = QUIET_SECONDS
        self._lock, self._done = Lock(), Event()
        self._thread = Thread(target=self._while_it_lasts, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def begin(self, cell: int) -> None:
        """Record that a cell begins, and announce it unless another was announced just now."""
        with self._lock:
            self._cell, self._quiet = cell, QUIET_SECONDS
            self._tell()

    def _while_it_lasts(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            with self._lock:
                self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._last < self._quiet:
            return
        what = f"cell {self._cell} of {self._cells}" if self._cell else "starting a kernel"
        self._last, self._quiet = now, max(QUIET_SECONDS, AGAIN_SECONDS)
        self._say(f"{what}, {now - self._begun:.0f} s")


@contextmanager
def _environment(properties: Mapping[str, str], private: str) -> Iterator[None]:
    """Set what the kernel inherits, and restore it afterwards."""
    variables = {
        # Prefer this environment's kernel to any `python3` in the user's folder.
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        # No history or state in a home directory, which a job may not have.
        "JUPYTER_RUNTIME_DIR": private,
        "IPYTHONDIR": private,
    }
    if properties:
        variables[PROPERTIES] = json.dumps(dict(properties))
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _message(kind: str, message: str) -> str:
    """Return the first line of an error; with its kind unless it is one of sharelag's."""
    first = (re.sub(r"\x1b\[[\d;]*m", "", message).strip().splitlines() or [""])[0]
    from sharelag import errors

    return first if hasattr(errors, kind) else f"unexpected {kind}: {first}"


def scrub_notebook(notebook: Any, secrets: Iterable[str]) -> Any:
    """Replace secrets in an executed notebook by `sharelag.reports.secrets.MASK`.

    Sources, outputs, attachments and the values of metadata are searched; images and binary data
    are unchanged. The result is a valid notebook, whatever the secrets.
    """
    import nbformat

    mask = masker(secrets)
    metadata = dict(notebook.metadata)
    widgets = metadata.pop("widgets", None)
    clean = {
        **notebook,
        "metadata": _about(metadata, mask),
        "cells": [_cell(cell, mask) for cell in notebook.cells],
    }
    if widgets is not None:
        clean["metadata"]["widgets"] = {mime: _widgets(one, mask) for mime, one in widgets.items()}
    return nbformat.from_dict(clean)


def _cell(cell: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    clean = {**cell, "source": mask(cell["source"]), "metadata": _about(cell["metadata"], mask)}
    if "attachments" in cell:
        clean["attachments"] = {key: _bundle(one, mask) for key, one in cell["attachments"].items()}
    if "outputs" in cell:
        clean["outputs"] = [_output(one, mask) for one in cell["outputs"]]
    return clean


def _output(output: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    clean = dict(output)
    for name in ("text", "ename", "evalue", "traceback"):
        if name in output:
            clean[name] = mask_strings(output[name], mask)
    if "metadata" in output:
        clean["metadata"] = _values(output["metadata"], mask)
    if "data" in output:
        clean["data"] = _bundle(output["data"], mask)
    return clean


def _bundle(forms: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    return {mime: _form(mime, form, mask) for mime, form in forms.items()}


def _form(mime: str, form: Any, mask: _Mask) -> Any:
    if mime == VIEW_MIME or (mime.startswith("image/") and not mime.endswith("xml")):
        return form
    return _values(form, mask, _WORDS) if mime in _OURS else mask_strings(form, mask)


def _widgets(state: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    """Mask the widgets' models, except the scripts of sharelag's own widgets."""
    models = {}
    for name, model in state.get("state", {}).items():
        values = dict(model.get("state", {}))
        is_ours = str(values.get("_anywidget_id", "")).startswith("sharelag_widgets.")
        scripts = () if is_ours else ("_esm", "_css")
        fixed = {key for key in values if key.startswith("_") and key not in scripts}
        clean = {key: one if key in fixed else _values(one, mask) for key, one in values.items()}
        models[name] = {**model, "state": clean}
    return {**state, "state": models}


def _about(metadata: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    return {name: one if name in _ABOUT else _values(one, mask) for name, one in metadata.items()}


def _values(value: Any, mask: _Mask, words: frozenset[str] = frozenset()) -> Any:
    """Mask every string except keys, times and the values of these keys."""
    if isinstance(value, Mapping):
        return {
            name: item if name in words and isinstance(item, str) else _values(item, mask, words)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_values(item, mask, words) for item in value]
    return mask(value) if isinstance(value, str) and not is_time(value) else value
