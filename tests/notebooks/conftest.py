"""One Spark for the kernels of these tests, or each would start a Java of its own: ten seconds and more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebooks.shipped import QUICK
from tests.support.connect import connect_server


@pytest.fixture(scope="package")
def remote() -> Iterator[str]:
    """Address of a Spark Connect server."""
    with connect_server(settings=QUICK) as address:
        yield address
