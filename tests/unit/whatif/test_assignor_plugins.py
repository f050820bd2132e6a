"""Assignors of other installed packages plug in by an entry point."""

import sys
from collections.abc import Callable

import pytest

from sharelag.errors import InputError
from sharelag.whatif import assign, assignor_names, compare, named, simulate, variants
from tests.support.command import ask
from tests.support.packages import Packages

#: Installs the package, with these entry points.
Install = Callable[..., None]

CODE = """
def last_first(group):
    places = sorted(group.places, reverse=True)
    return {one.id: {place[0]: [place[1]]} for one, place in zip(group.members, places)}

NUMBER = 3
"""


@pytest.fixture
def install(packages: Packages, registered: None) -> Install:
    def install(points: str = "last-first = cold_start:last_first") -> None:
        packages.install("cold-start", "sharelag.assignors", points, CODE)

    return install


def test_the_assignor_of_an_installed_package_is_found_by_its_name(install: Install) -> None:
    install()
    assert "last-first" in assignor_names()
    assert "cold_start" not in sys.modules  # nothing is imported before it is asked for
    members = [{"id": id_, "subscribed": ["t"]} for id_ in "ab"]
    answer = assign("last-first", members, {"t": {"partitions": 3}})
    assert answer == {"a": {"t": [2]}, "b": {"t": [1]}}
    (row,) = ask("simulate --scenario walk --assignor last-first")
    assert row["assignor"] == "last-first"
    names = r"simple, simple-4\.1, all-to-all, .*last-first"
    with pytest.raises(InputError, match=f"unknown assignor 'other': choose one of {names}"):
        assign("other", [], {"t": {"partitions": 1}})


@pytest.mark.slow
def test_a_simulation_and_a_comparison_take_it(install: Install) -> None:
    install()
    tried = variants(named("uneven"), assignors=["simple", "last-first"])
    result = simulate(tried["last-first"])
    assert result.summary.column("assignor").to_pylist() == ["last-first"]
    assert result.assignments["pairs"][-1].as_py() == len(tried["last-first"].each_member())
    runs = compare(tried, seeds=range(2)).runs
    assert set(runs.column("assignor").to_pylist()) == {"simple", "last-first"}


def test_what_is_no_function_is_named(install: Install) -> None:
    install("mine = cold_start:NUMBER")
    with pytest.raises(InputError, match=r"package 'cold-start' is not a function.*type int"):
        assign("mine", [], {"t": {"partitions": 1}})
    assert assign("sticky", [], {"t": {"partitions": 1}}) == {}  # the others do not suffer


def test_built_in_names_are_no_others(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharelag.whatif.assignors.registry._UNRIVALLED", set())
    install("simple = cold_start:last_first")
    with pytest.raises(InputError, match=r"'simple' is built in, but the package 'cold-start'"):
        simulate(named("uneven"))
