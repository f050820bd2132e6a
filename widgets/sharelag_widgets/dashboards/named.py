"""What a notebook calls the workbench of a dashboard, so that Python taken from there runs."""

from __future__ import annotations

from IPython import get_ipython

from sharelag.workbench import Workbench


def line_for(bench: Workbench, board: object) -> str:
    """Return the line that makes ``bench`` what a dashboard shows; empty where it is, or no way is.

    A variable holds the workbench or the dashboard, or the dashboard was a cell's result: ``_2``.
    """
    shell = get_ipython()
    names = {} if shell is None else dict(shell.user_ns)
    if names.get("bench") is bench:
        return ""
    # `_`, `__` and `___` will be other results by the time that the line runs.
    lasting = sorted(filter(lambda name: name.strip("_"), names), key=lambda name: name[0] == "_")
    for name in lasting:
        if names[name] is bench:
            return f"bench = {name}\n"
        if names[name] is board:
            return f"bench = {name}.bench\n"
    return ""
