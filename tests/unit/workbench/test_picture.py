"""Windows drawn as text."""

import json
import re
from typing import Any

import pytest

from sharelag.cli.questions import _paint
from sharelag.inputs.recorded import folder_of
from sharelag.workbench.show import pictures
from tests.support.command import refused, sharelag

CHAPTERS = str(folder_of("chapters"))


def row(start: int | None, end: int | None, *runs: list[int], group: str = "g") -> dict[str, Any]:
    """Return what a picture needs of a window."""
    place = {"group_id": group, "topic": "t", "topic_id": "", "partition": 0}
    offsets = {"effective_start_offset": start, "window_end_offset": end}
    return place | offsets | {"runs": list(runs)}


def test_offsets_states_and_counts_stand_below_each_other() -> None:
    """The example of KIP-1226, as the state topic has it: acquired offsets are unknown."""
    runs = [3, 3, 0, 1], [5, 5, 2, 1], [6, 6, 4, 5], [7, 9, 0, 1]
    assert list(pictures([row(2, 10, *runs)])) == [
        "g  t:0",
        "  offset         2 3 4 5 6 7 8 9",
        "  state          ? A ? K X A A A",
        "  delivery count - 1 - 1 5 1 1 1",
        "                 ^             ^",
        "  ^ effective start 2, last offset with a known state 9",
        "  4 runs over 6 offsets with a known state",
        "",
        "states:",
        "  A available",
        "  K acknowledged",
        "  X archived",
        "  ? no persisted state: acquired, or never persisted",
    ]


@pytest.mark.row("WIN-20")
def test_with_what_is_acquired_it_is_the_picture_of_the_kip() -> None:
    """GL-09, with acquired offsets from a request log, one of them delivered again."""
    runs = [3, 3, 0, 2], [4, 4, 0, 1], [5, 5, 2, 1], [6, 6, 4, 5], [7, 9, 0, 0]
    held = [(2, 2, 1), (4, 4, 2)]
    assert list(pictures([row(2, 10, *runs) | {"held": held}]))[1:6] == [
        "  offset         2 3 4 5 6 7 8 9",
        "  state          Q A Q K X A A A",
        "  delivery count 1 2 2 1 5 0 0 0",
        "                 ^             ^",
        "  ^ effective start 2, last offset with a known state 9",
    ]
    beyond = list(pictures([row(2, 2) | {"held": [(2, 3, 1)]}]))
    assert beyond[2] == "  state          Q Q"
    split = list(pictures([row(0, 6, [0, 5, 0, 1]) | {"held": [(1, 2, 2), (4, 4, 2)]}]))
    assert split[2:4] == ["  state          A Q Q A Q A", "  delivery count 1 2 2 1 2 1"]


def test_long_runs_are_one_cell_and_rows_keep_to_80_columns() -> None:
    runs = [[at, at + 99_999, 2, 1] for at in range(10**12, 10**12 + 10**7, 200_000)]
    lines = list(pictures([row(10**12, 10**12 + 10**7, *runs)]))
    assert "1000000000000-1000000099999" in lines[1]
    assert max(map(len, lines)) <= 80
    offsets = [text for line in lines for text in re.findall(r"\d{13}-\d{13}", line)]
    assert len(offsets) == 100  # 50 runs, and 50 gaps after them
    assert sum("^" in line for line in lines) == 3  # first row, last row, and what they mean


def test_a_window_of_very_many_runs_says_what_is_left_out() -> None:
    lines = list(pictures([row(0, 1000, *([at, at, at % 2 * 2, 1] for at in range(1000)))]))
    assert "  more offsets follow, from 120 to 999" in lines
    assert not any(" 120 " in line for line in lines if line.startswith("  offset"))


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (None, None, "  the start offset is not known yet"),
        (7, 7, "  no state is persisted of offsets from 7"),
        (7, None, "  no state is persisted of offsets from 7"),
    ],
)
def test_what_cannot_be_drawn_is_said(start: int | None, end: int | None, said: str) -> None:
    assert list(pictures([row(start, end)])) == ["g  t:0", said, ""]


def test_names_are_escaped_and_unknown_states_shown_by_number() -> None:
    lines = list(pictures([row(0, 1, [0, 0, 9, 3], group="a\x1b[31m")]))
    assert "\x1b" not in "".join(lines)
    assert lines[2].split() == ["state", "9"]


def test_states_alone_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    lines = list(pictures([row(0, 2, [0, 0, 2, 1])], _paint))
    assert [index for index, line in enumerate(lines) if "\x1b" in line] == [2]
    plain = list(pictures([row(0, 2, [0, 0, 2, 1])]))
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in lines] == plain
    for name, value in [("NO_COLOR", "1"), ("TERM", "dumb")]:
        with monkeypatch.context() as terminal:
            terminal.setenv(name, value)
            assert list(pictures([row(0, 2, [0, 0, 2, 1])], _paint)) == plain


def test_the_command_draws_what_its_json_says() -> None:
    shown = sharelag("windows", "--capture", CHAPTERS, "--picture", code=0)
    assert "\x1b" not in shown.stdout  # not a terminal
    drawn = shown.stdout.split("states:")[0].split("\n\n")
    printed = sharelag("windows", "--capture", CHAPTERS, "-o", "json").stdout.splitlines()
    for text, line in zip(drawn, map(json.loads, printed), strict=False):
        start, end = line["effective_start_offset"], line["window_end_offset"]
        name = f"{line['group_id']}  {line['topic']}:{line['partition']}"
        assert text.startswith(name)
        if start is not None and end is not None and end > start:
            assert f"^ effective start {start}, last offset with a known state {end - 1}" in text
    assert len([text for text in drawn if text.strip()]) == len(printed) > 1


@pytest.mark.parametrize("other", [("-o", "json"), ("--since", "1h")])
def test_options_that_a_picture_would_ignore_are_refused(other: tuple[str, str]) -> None:
    said = refused("windows", "--capture", CHAPTERS, "--picture", *other, code=2)
    assert "remove --since and -o" in said
