"""What shows a cause, in words that people read."""

from __future__ import annotations

import re

import pytest

import sharelag
from sharelag.workbench import Workbench


@pytest.fixture(scope="module")
def demo() -> Workbench:
    return sharelag.open("demo", engine="local")


def test_evidence_has_no_names_of_fields(demo: Workbench) -> None:
    said = [one.evidence for group in demo.explain().summaries for one in group.causes]
    assert any("led by broker 2: over 99 % of the group's lag" in one for one in said)
    assert any("members hold at most 0" in one for one in said)
    assert not [one for one in said if re.search(r"\b[a-z]+_[a-z]+\b|acquired at most", one)]


def test_of_several_partitions_it_says_what_is_about_one_of_them(demo: Workbench) -> None:
    """The numbers of one partition stand beside the sum over all that is held."""
    causes = {group.group: group.causes[0] for group in demo.explain().summaries if group.causes}
    nobody, one = causes["returns-desk"], causes["billing"]
    assert "holds 915" in nobody.where
    assert nobody.evidence == "members 0, in the partition with the most: lag 459"
    assert "in the partition" not in one.evidence


def test_counts_stand_as_in_tables_and_offsets_as_in_commands(demo: Workbench) -> None:
    causes = {group.group: group.causes[0] for group in demo.explain().summaries if group.causes}
    assert "given back 2,659" in causes["notifications"].evidence
    assert "offset 4142, stuck" in causes["billing"].evidence
    assert "end offset 3614" in causes["invoicing"].evidence
