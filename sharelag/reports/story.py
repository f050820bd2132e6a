"""The former name of `sharelag.reports.cells`, for copies of the report notebooks."""

from __future__ import annotations

import warnings

from sharelag.reports.cells import *  # noqa: F403

warnings.warn(
    "sharelag.reports.story is now sharelag.reports.cells: change the import",
    DeprecationWarning,
    stacklevel=2,
)
