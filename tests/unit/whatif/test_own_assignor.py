"""An assignor of one's own: in twelve lines, with help that has every field it may use."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from sharelag.whatif import ASSIGNORS, Group, assignor_descriptions, compare, named, variants
from sharelag.whatif.assignors.group import Member, Topic

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
