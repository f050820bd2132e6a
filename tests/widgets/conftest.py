"""Recorded clusters, read once for the dashboards of all tests of this folder."""

import pytest

import sharelag
from sharelag.workbench import Workbench


@pytest.fixture(scope="package")
def demo() -> Workbench:
    """Seven groups at the end of their recording, when nobody reads any more."""
    return sharelag.open("chapters", engine="local")


@pytest.fixture(scope="package")
def uneven() -> Workbench:
    """A group of three members with more to do in one partition than in the others."""
    return sharelag.open("hot_partition", engine="local")


@pytest.fixture(scope="package")
def varied() -> Workbench:
    """Groups with a cause each, at the end of what `make demo` shows."""
    return sharelag.open("demo", engine="local")
