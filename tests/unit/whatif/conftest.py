"""What tests of simulations share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharelag.whatif import ASSIGNORS


@pytest.fixture
def registered() -> Iterator[None]:
    """Forget afterwards which assignors a test has registered."""
    before = dict(ASSIGNORS)
    yield
    ASSIGNORS.clear()
    ASSIGNORS.update(before)
