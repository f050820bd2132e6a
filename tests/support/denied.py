"""Folders that may not be listed: tests may run as a user who may read everything."""

import os
from typing import Any

import pytest


def deny_listing(patch: pytest.MonkeyPatch, name: str) -> None:
    """Refuse to list every folder whose path ends so."""
    scan = os.scandir

    def deny(path: Any) -> Any:
        if str(path).endswith(name):
            raise PermissionError(13, "denied", str(path))
        return scan(path)

    patch.setattr(os, "scandir", deny)
