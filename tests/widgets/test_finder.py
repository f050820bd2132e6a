"""A choice of one among many: names from outside, and what a browser says of them."""

import pytest
import traitlets

from sharelag_widgets.dashboards.pieces import Finder


def test_the_chosen_one_is_that_of_the_place_in_the_list() -> None:
    finder = Finder(label="Group")
    finder.options = ["billing", "checkout"]
    assert (finder.labels, finder.index, finder.value) == (["billing", "checkout"], -1, None)
    heard = []
    finder.observe(lambda change: heard.append(change["new"]), names=["value"])
    finder.index = 1  # as the browser sets it
    assert finder.value == "checkout"
    finder.options = ["analytics", "billing", "checkout"]
    assert (finder.index, finder.value, heard) == (2, "checkout", ["checkout"])
    finder.value = "analytics"
    assert finder.index == 0
    finder.value = None
    assert (finder.index, heard) == (-1, ["checkout", "analytics", None])
    finder.index = 99
    assert finder.value is None
    with pytest.raises(traitlets.TraitError, match="unknown choice 'nobody'"):
        finder.value = "nobody"


def test_names_that_are_shortened_to_the_same_stay_apart() -> None:
    names = [f"{'a' * 200}{n}{'z' * 200}" for n in range(3)] + ["a\u202eb"]
    finder = Finder(label="Group")
    finder.options = names
    assert len(set(finder.labels)) == 4
    assert all(len(label) < 80 and "\u202e" not in label for label in finder.labels)
    finder.index = 2
    assert finder.value == names[2]
