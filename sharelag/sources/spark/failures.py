"""Why a query failed, in a sentence, where Spark's own words do not say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sharelag.errors import InputError, ShareLagError

#: Spark's own word for a file that is no longer there, and that of a task that reads files itself.
_NO_FILE = ("FILE_NOT_EXIST", "FileNotFoundError")


@contextmanager
def explain_failures() -> Iterator[None]:
    """Raise the error of a query within a ``with`` block as a sentence that says what to do.

    Raises
    ------
    InputError
        A task refused its rows, or files of a DataFrame were replaced or changed.
    """
    try:
        yield
    except ShareLagError:
        raise
    except Exception as error:  # the type depends on how rows were requested
        said = explain(str(error))
        if said is None:
            raise
        raise said from error


def explain(text: str) -> ShareLagError | None:
    """Return the error that the text of a failed query stands for; None: it says enough."""
    # A task's own sentence, without Spark's traceback around it.
    if said := re.search(rf"{InputError.__name__}: (.+)", text):
        return InputError(said[1])
    if any(word in text for word in _NO_FILE):
        return InputError(
            "files that were read before are gone: an archive that is still written replaces its "
            "files after 15 minutes. Read it again: bench.refresh(), or sharelag.open(...)"
        )
    return None
