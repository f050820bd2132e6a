"""Names cannot act on a terminal; numbers keep the thin space between their thousands."""

from __future__ import annotations

from sharelag.tables.words import THIN_SPACE, number, terminal


def test_thousands_are_not_escaped() -> None:
    assert terminal(number(-12428, THIN_SPACE)) == "-12\u202f428"
    assert terminal("a\x1b[31m\u202e") == "a\\x1b[31m\\u202e"
