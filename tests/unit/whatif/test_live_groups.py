"""What was foretold of groups that were then played live is what the page says, and came true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools.groups_page import BEGIN, END, PAGE, table
from tools.record.incidents.groups import ASSIGNORS, BACKLOG, DEFAULTS, GROUPS, RUNS, kept, measured


def test_the_page_has_what_was_kept() -> None:
    assert PAGE.read_text().split(BEGIN)[1].split(END)[0].strip() == table()


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_what_was_foretold_of_an_assignor_is_what_is_simulated(assignor: str) -> None:
    of = kept("assignors")[BACKLOG.name]
    assert measured(replace(BACKLOG, assignor=assignor), 0) == of["foretold"][assignor][0]
    assert len(of["live"][assignor]) == RUNS["assignors"]


def test_what_was_foretold_of_defaults_is_what_is_simulated() -> None:
    for group in GROUPS:
        of = kept("tuned")[group.name]
        assert measured(group, 0) == of["foretold"][DEFAULTS][0]
