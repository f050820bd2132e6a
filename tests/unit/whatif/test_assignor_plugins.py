"""Assignors plug in by an entry point of a package, or are one's own, in twelve lines."""

import re
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from sharelag.errors import InputError
from sharelag.whatif import (
    ASSIGNORS,
    Group,
    assign,
    assignor_descriptions,
    assignor_names,
    compare,
    named,
    simulate,
    variants,
)
from sharelag.whatif.assignors.group import Member, Topic
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


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", [Member, Topic])
def test_help_of_a_group_names_all_fields_it_may_use(kind: type[Member] | type[Topic]) -> None:
    told = Group.__doc__ or ""
    for one in fields(kind):
        assert f"``{one.name}``" in told


@pytest.mark.usefixtures("registered")
def test_the_how_to_makes_an_assignor_that_can_be_compared() -> None:
    page = (ROOT / "docs/how-to/clear.md").read_text()
    own, compared = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[:2]
    assert len([line for line in own.splitlines() if line]) <= 12
    names = {"scenario": named("uneven")}
    exec(own, names)
    exec(compared, names)
    made = variants(names["scenario"], assignors=["simple", "fewest-first"])
    assert set(compare(made, seeds=[1, 2]).scenarios) == {"simple", "fewest-first"}
    about = assignor_descriptions()["fewest-first"]
    assert about == "Give each partition to the subscriber with the fewest."


def test_every_assignor_has_a_line() -> None:
    about = assignor_descriptions()
    assert set(about) >= set(ASSIGNORS)
    for name in ASSIGNORS:
        assert about[name].endswith(".")
        assert "\n" not in about[name]
        assert len(about[name]) < 100
    page = (ROOT / "docs/simulate.md").read_text()
    for name in ASSIGNORS:
        assert f"| `{name}` | {about[name]} |" in page
