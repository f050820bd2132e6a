"""The texts that people read have no phrase that a native engineer would not write."""

import re

import pytest

from tools.words import PHRASES, Text, found, texts


@pytest.fixture(scope="module", name="every_text")
def _every_text() -> list[Text]:
    return list(texts())


def test_no_text_has_one(every_text: list[Text]) -> None:
    assert list(found(every_text)) == []
    told = [instead for _, _, instead in found([Text("here", "'x' is no engine")])]
    assert told == ["is not a ..."]


def test_every_kind_of_text_is_read(every_text: list[Text]) -> None:
    places = " ".join(text.place for text in every_text)
    for place in ("README.md", "docs/glossary.md", "sharelag lag --help", "sharelag lag --group"):
        assert place in places
    assert "data/README.md" in places
    # Also what is not raised: meanings of columns, causes, scenarios, sentences of reports.
    for module in (
        "tables/declared/lag",
        "metrics/causes/declared",
        "whatif/gallery",
        "reports/case",
    ):
        assert f"sharelag/{module}.py:" in places
    # Docstrings, which the reference shows, comments, and stories that a recording writes down.
    for module in (
        "sharelag/workbench/opening.py:",
        "sharelag/errors.py:",
        "stories_of_records.py:",
    ):
        assert module in places
    words = " ".join(text.words for text in every_text)
    assert "A cluster or a capture at one moment." in words
    assert "From this many records on Spark's start-up is worth its price." in words
    assert "notebooks/00_start_here.ipynb" in places


def test_fine_english_passes() -> None:
    fine = "there is no topic 'x', it is no longer read, there are no more, and there is none"
    assert not [one for one in PHRASES if re.search(one, fine)]
    assert [one for one in PHRASES if re.search(one, "'x' is no engine")]
