"""Run a notebook by papermill, in a kernel of this Python, with client settings beside the parameters."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from sharelag.reports.blocks import VERDICT_MIME
from sharelag.reports.scrub import scrubbed_notebook
from sharelag.reports.secrets import PROPERTIES, scrubbed

_LOG = logging.getLogger(__name__)
#: Nobody watches: what takes longer than this would go on for ever.
CELL_SECONDS = 3600
#: The name of a socket has 107 bytes at most.
_LONGEST_FOLDER = 80


class Executed(NamedTuple):
    """A notebook that was run, without secrets."""

    notebook: Any  # nbformat's
    error: str | None  # in one line; None: it ran to its end

    @property
    def verdict(self) -> dict[str, Any] | None:
        """What it says of the share groups; None where it did not come to that."""
        outputs = (output for cell in self.notebook.cells for output in cell.get("outputs", []))
        found = [
            output["data"][VERDICT_MIME]
            for output in outputs
            if VERDICT_MIME in output.get("data", {})
        ]
        return found[-1] if found else None


def execute(
    path: Path,
    out: Path,
    parameters: Mapping[str, Any],
    properties: Mapping[str, str],
    secrets: Iterable[str],
    cell_seconds: int = CELL_SECONDS,
) -> Executed:
    """Run a notebook.

    Parameters
    ----------
    path : pathlib.Path
    out : pathlib.Path
        Where the executed notebook goes, cell by cell; after a failure with what it had got to.
    parameters : mapping
        None of them a secret.
    properties : mapping
        Client properties; they reach the kernel in its environment, which nobody writes down.
    secrets : iterable of str
        Taken out of what is left behind.
    cell_seconds : int
        A cell that takes longer fails: others may be waiting for this run.
    """
    # They take a second, which what only looks at reports need not wait for.
    import nbformat
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from traitlets.config import Config

    error = None
    try:
        # Beside the notebook: should we be killed, all of it goes away together.
        near = out.resolve().parent if len(str(out.resolve().parent)) < _LONGEST_FOLDER else None
        with (
            TemporaryDirectory(prefix=".k-", dir=near, ignore_cleanup_errors=True) as private,
            _environment(properties, private),
        ):
            # Sockets in a folder of ours instead of ports, which everybody on the machine could
            # connect to. Without a name they would lie in the working folder, where another run may
            # have the same.
            sockets = {
                "transport": "ipc",
                "ip": f"{private}/kernel",
                "connection_file": f"{private}/kernel.json",
            }
            config = Config(KernelManager=sockets)
            papermill.execute_notebook(
                path,
                out,
                dict(parameters),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                config=config,
                execution_timeout=cell_seconds,
                # What matters of a failure is in the notebook.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
    except papermill.PapermillExecutionError as failed:
        error = _told(failed.ename, failed.evalue)
    except DeadKernelError:
        error = (
            "the kernel died, perhaps for want of memory: report on fewer groups, or give it more"
        )
    except CellTimeoutError:
        error = (
            f"a cell took more than {cell_seconds} s: report on fewer groups or on a shorter time, or give it longer "
            "(--cell-timeout)"
        )
    except (
        Exception
    ) as failed:  # a kernel that does not start, a full disk: a report says that, too
        _LOG.debug("the notebook could not be run", exc_info=True)
        error = _told(type(failed).__name__, str(failed))
    ran = nbformat.read(out if out.exists() else path, as_version=4)  # type: ignore[no-untyped-call]
    clean = scrubbed_notebook(_without_failure_notes(ran), secrets)
    out.write_text(nbformat.writes(clean) + "\n", "utf-8")  # type: ignore[no-untyped-call]
    return Executed(clean, None if error is None else scrubbed(error, secrets))


@contextmanager
def _environment(properties: Mapping[str, str], private: str) -> Iterator[None]:
    """What the kernel inherits; put back afterwards."""
    wanted = {
        # The kernel of this environment, whatever a user's folder calls python3.
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        # No history and no state in a home folder, which a job may not have.
        "JUPYTER_RUNTIME_DIR": private,
        "IPYTHONDIR": private,
    }
    if properties:
        wanted[PROPERTIES] = json.dumps(dict(properties))
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _told(kind: str, message: str) -> str:
    """Our own errors are written for people; of others the kind is worth knowing, too."""
    first = (re.sub(r"\x1b\[[\d;]*m", "", message).strip().splitlines() or [""])[0]
    from sharelag import errors

    return first if hasattr(errors, kind) else f"unexpected {kind}: {first}"


def _without_failure_notes(notebook: Any) -> Any:
    """Leave out the red box that papermill puts before a cell that failed; the report says it better."""
    notebook.cells = [
        cell
        for cell in notebook.cells
        if "papermill-error-cell-tag" not in cell.metadata.get("tags", [])
    ]
    return notebook
