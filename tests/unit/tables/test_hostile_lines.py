"""Names that were chosen to act on terminals and in spreadsheets are text in every output."""

import csv
import io
import itertools
import json
import random
import unicodedata

import pytest
import yaml

from sharelag.tables.lines import cell, lines
from sharelag.tables.words import THOUSANDS, number, terminal

#: Escape sequences of both kinds, direction, invisible and private characters, ends of lines.
ACTING = [
    *("\x1b[2J", "\x1b]8;;http://evil\x1b\\", "\x9b31m", "\x07", "\x7f", "\r", "\n", "\t", "\0"),
    *("\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\x85", "\ue000", "\U000e0041", "\u061c"),
]
FORMULAS = ["=", "+", "-", "@", "\t=", "\r=", "\n=", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
PLAIN = ["g", "ü", "注文", "🦜", "'", '"', "\\", ": ", "- "]
PLAIN += ["#", "{", "}", ",", " ", "%", "null", "1e9"]


def names(count: int) -> list[str]:
    chance = random.Random(4)
    some = ["".join(chance.choices(PLAIN + ACTING, k=chance.randrange(1, 6))) for _ in range(count)]
    return [*(f"{one}cmd|'/C calc'!A0" for one in FORMULAS), *PLAIN, *ACTING, *some]


@pytest.mark.parametrize("output", ["human", "json", "yaml", "csv"])
def test_nothing_that_is_printed_acts_on_a_terminal(output: str) -> None:
    rows = [{"group_id": name, "topics": [name]} for name in names(300)]
    printed = list(lines(rows, output))
    for line in printed:
        categories = {unicodedata.category(character) for character in line.replace("\n", "")}
        assert not categories & {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}, ascii(line)


def test_programs_read_the_names_as_they_are() -> None:
    rows = [{"group_id": name, "topics": [name]} for name in names(300)]
    assert [json.loads(line) for line in lines(rows, "json")] == rows
    assert yaml.safe_load("\n".join(lines(rows, "yaml"))) == rows


def test_no_cell_is_a_formula() -> None:
    rows = [{"group_id": name} for name in names(300)]
    heading, *cells = csv.reader(io.StringIO("\n".join(lines(rows, "csv"))))
    assert (heading, len(cells)) == (["group_id"], len(rows))
    acts = tuple({one[0] for one in FORMULAS})
    for name, (text,) in zip(names(300), cells, strict=True):
        assert text.startswith("'") == name.startswith((*acts, "'"))


def test_groups_with_different_names_look_different() -> None:
    r"""A line feed is ``\n``, which is also what a name may have in it."""
    parts = ["\n", "\\", "n", "\\n", "\t", "t", "x1b", "\x1b"]
    parts += ["u202e", "\u202e", "U", "r", "\r", " a"]
    different = {"".join(pair) for pair in itertools.product(parts, repeat=3)} | {*names(300)}
    rows = [{"group_id": name} for name in sorted(different)]
    assert len({cell(row, "group_id") for row in rows}) == len(different)
    plain = [row for row in rows if not row["group_id"].startswith(("'", *FORMULAS))]
    _, *printed = lines(plain, "csv")
    assert len(set(printed)) == len(printed) == len(plain)
    pair = [{"group_id": "a\nb"}, {"group_id": "a\\nb"}]
    assert list(lines(pair, "human")) == ["GROUP", "a\\nb", "a\\\\nb"]
    assert cell({"group_id": "a\\b c"}, "group_id") == "a\\b c"  # nothing that looks like an escape


def test_thousands_are_not_escaped() -> None:
    assert terminal(number(-12428, THOUSANDS)) == "-12,428"
    assert terminal("a\x1b[31m\u202e") == "a\\x1b[31m\\u202e"
