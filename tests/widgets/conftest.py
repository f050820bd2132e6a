"""Recorded clusters, read once for the dashboards of all tests of this folder."""

import pytest

from sharelag.workbench import Workbench
from tests.support.readings import open_once


@pytest.fixture(scope="package")
def demo() -> Workbench:
    """Seven groups at the end of their recording, when nobody reads any more."""
    return open_once("chapters")


@pytest.fixture(scope="package")
def uneven() -> Workbench:
    """A group of three members with more to do in one partition than in the others."""
    return open_once("hot_partition")


@pytest.fixture(scope="package")
def varied() -> Workbench:
    """Groups with a cause each, at the end of what `make demo` shows."""
    return open_once("demo")
