"""Parse ``sasl.jaas.config``, where Kafka's Java clients have user and password.

Source of the grammar: ``org.apache.kafka.common.security.JaasConfig``, which uses Java's
``StreamTokenizer``: ``LoginModuleClass controlFlag key=value key="value" ... ;``
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sharelag.errors import ConfigError

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/              # comments
      | "(?P<double>(?:\\.|[^"\\])*)"
      | '(?P<single>(?:\\.|[^'\\])*)'
      | (?P<mark>[;=])
      | (?P<word>[^\s;="']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


class JaasEntry(NamedTuple):
    """One login module."""

    module: str  # class name without the package
    options: dict[str, str]


def parse_jaas(text: str) -> JaasEntry:
    """Parse the login module of a ``sasl.jaas.config``.

    Parameters
    ----------
    text : str
        As in a Java client's properties, after the escapes of the properties file are resolved.

    Raises
    ------
    ConfigError
        The text is invalid. The message does not quote it, because it contains a password.
    """
    tokens = _tokens(text)
    marks = [token for token in tokens if token.is_mark]
    if len(tokens) < 3 or marks[-1:] != [tokens[-1]] or tokens[-1].text != ";":
        raise _unreadable("it must end with a ';'")
    if sum(mark.text == ";" for mark in marks) > 1:
        raise _unreadable("it must have exactly one login module")
    module, flag, *options = tokens[:-1]
    if module.is_mark or flag.text.lower() not in _FLAGS:
        raise _unreadable("the login module must be followed by 'required'")
    names, equals, values = options[0::3], options[1::3], options[2::3]
    if (
        len(options) % 3
        or any(not e.is_mark for e in equals)
        or any(t.is_mark for t in names + values)
    ):
        raise _unreadable(
            "its options must be name=\"value\" pairs; a '\"' inside a value is written '\\\"'"
        )
    return JaasEntry(
        module.text.rsplit(".", 1)[-1], {n.text: v.text for n, v in zip(names, values, strict=True)}
    )


class _Token(NamedTuple):
    text: str
    is_mark: bool


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while rest := re.compile(r"\S").search(text, position):
        found = _TOKEN.match(text, rest.start())
        if found is None:
            raise _unreadable("a quotation mark is not closed")
        position = found.end()
        if found.lastgroup in ("double", "single"):
            tokens.append(_Token(_ESCAPE.sub(_unescape, found[found.lastgroup]), False))
        elif found.lastgroup:
            tokens.append(_Token(found[0], found.lastgroup == "mark"))
    return tokens


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    return (
        chr(int(code, 8))
        if code.isdigit() and set(code) <= set("01234567")
        else _CONTROLS.get(code, code)
    )


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"sasl.jaas.config cannot be parsed: {why}. Write it as: "
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="..." password="..."; without the section of a JAAS file around it; a line goes '
        r"on in the next one only where \ is its very last character"
    )
