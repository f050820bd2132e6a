"""Recorded clusters, read once for the tests of all rooms."""

import pytest

from sharelag.workbench import Workbench
from tests.support.readings import open_once


@pytest.fixture(scope="session")
def demo() -> Workbench:
    return open_once("demo")
