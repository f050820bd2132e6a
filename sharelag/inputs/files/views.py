"""Views of a folder, so that files appear atomically: folders of hard links and one symbolic link.

    data -> .views/000000000042     what readers open; moved to the next view in one step
    .views/000000000041/...         earlier views, for readers that still use them
    .staging/...                    files being written; readers do not look there

A view never changes. Every change creates the next view, of the remaining and the new files, and
then moves the link. So a process can be killed at any time: the link points to a complete view, and
the next process removes files that are in no view. Any reader of folders follows a link, while only
Spark understands the file list of Spark's file sink, and other readers would read incomplete files.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sharelag.errors import InputError
from sharelag.inputs.files.raw_files import files_below

DATA, VIEWS, STAGING = "data", ".views", ".staging"
#: Seconds that a replaced view is kept: longer than reading one takes.
KEEP = 900.0
_NOTE = "view.json"


@dataclass(frozen=True)
class View:
    """One state of the folder."""

    folder: Path | None  # None: nothing was committed yet
    number: int = 0
    batch: int = -1  # the last micro-batch in it
    day: str = ""  # of the last commit, UTC

    def files(self, table: str) -> list[Path]:
        """Return the files of one table sorted by path, which is the order of their rows."""
        return files_below(self.folder / table, ".parquet") if self.folder else []


def current(archive: Path) -> View:
    """Return the current view; its files are kept for `KEEP` seconds after it is replaced."""
    try:
        folder = archive / VIEWS / (archive / DATA).readlink().name
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        # The name alone is taken, and it is a number: a link of a damaged archive leads nowhere.
        return View(folder, int(folder.name), int(note["batch"]), str(note["day"]))
    except FileNotFoundError:
        return View(None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{archive} is a damaged archive ({DATA} and {VIEWS} do not name a view, {error!r}): "
            "restore it from a copy"
        ) from error


def commit(
    archive: Path,
    add: Mapping[str, Path],
    drop: Collection[str] = (),
    batch: int = -1,
    day: str = "",
    keep: float = KEEP,
) -> bool:
    """Create the next view; False where there is nothing to do.

    That is so where the micro-batch was already committed, or a file to drop is no longer there. A
    file system without hard links, or a full one, is an InputError.

    Parameters
    ----------
    archive : pathlib.Path
    add : mapping of path in the view to file
        The files must be in the archive, because hard links do not cross file systems.
    drop : collection of str
        Paths in the view that the new files replace.
    batch : int
        The micro-batch of the new files; -1 for none.
    day : str
        The day of the commit, UTC.
    keep : float
        Seconds to keep replaced views.
    """
    with hold_lock(archive / ".lock"):
        before = current(archive)
        paths = before.files("")
        there = {str(path.relative_to(before.folder or "")): path for path in paths}
        if 0 <= batch <= before.batch or not set(drop) <= there.keys():
            return False
        stay = {name: path for name, path in there.items() if name not in drop}
        note = {"batch": max(batch, before.batch), "day": max(day, before.day)}
        try:
            for path in add.values():
                _flush(path)
            _make(archive, f"{before.number + 1:012d}", {**stay, **add}, note)
        except OSError as error:
            raise InputError(
                f"cannot write to the archive {archive} ({error.strerror or error}): "
                "it needs space and a file system with hard links"
            ) from error
        _remove_old(archive, before.number + 1, keep)
        return True


@contextmanager
def hold_lock(path: Path, wait: float = math.inf) -> Iterator[bool]:
    """Hold a lock that ends with this process; yield whether it was acquired in time."""
    import fcntl  # not on Windows, where archives can still be read

    until = time.monotonic() + wait
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    yield False
                    return
                time.sleep(0.05)
            else:
                yield True
                return


def staging(archive: Path, who: str) -> Path:
    """Return an empty staging folder, without files that an earlier process left."""
    folder = archive / STAGING / who
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _make(archive: Path, name: str, files: Mapping[str, Path], note: Mapping[str, object]) -> None:
    folder = archive / VIEWS / name
    shutil.rmtree(folder, ignore_errors=True)  # from a process killed before it moved the link
    folder.mkdir(parents=True)
    made = {folder}
    for relative, path in files.items():
        place = folder / relative
        if place.parent not in made:
            place.parent.mkdir(parents=True, exist_ok=True)
            made.add(place.parent)
        place.hardlink_to(path)
    (folder / _NOTE).write_text(json.dumps(note), encoding="utf-8")
    _flush(folder / _NOTE)
    link = archive / VIEWS / "next"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(VIEWS, name))  # relative: an archive may be moved
    link.replace(archive / DATA)


def _remove_old(archive: Path, newest: int, keep: float) -> None:
    """Remove views that were replaced long ago; a file is removed with its last view."""
    # A view was replaced when the next one was created.
    numbered = (path for path in (archive / VIEWS).iterdir() if path.name.isdecimal())
    views = sorted(path for path in numbered if int(path.name) <= newest)
    for path, following in pairwise(views):
        if following.stat().st_mtime < time.time() - keep:
            shutil.rmtree(path)


def _flush(path: Path) -> None:
    # The checkpoint must not be ahead of the records, even after a power failure.
    with path.open("rb") as file:
        os.fsync(file.fileno())
