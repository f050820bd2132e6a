"""Command lines of Kafka's tools for share groups, checked as each version checks them. No I/O.

``ShareGroupCommandOptions``, ``ShareGroupCommand`` and ``ConsoleShareConsumerOptions`` define the
rules; tests compare with them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import NamedTuple

from sharelag.errors import InputError
from sharelag.model.settings import Problem
from sharelag.model.versions import has_reached

#: The release that added options for resets to offsets (KIP-1323).
_LATER = "4.4"
Given = Mapping[str, Sequence[str | None]]


class Rule(NamedTuple):
    """A combination of options that a tool refuses."""

    breaks: Callable[[Given], bool]
    option: str
    why: str
    hint: str = ""
    #: The first release that refuses it; empty: all do.
    since: str = ""
    #: The first release that no longer refuses it; empty: none.
    until: str = ""

    def is_of(self, version: str | None) -> bool:
        """Return whether the rule applies to a version."""
        has_begun = not self.since or has_reached(version, self.since)
        return has_begun and not (self.until and has_reached(version, self.until))


@dataclass(frozen=True)
class Tool:
    """A tool: its options without, with required and with optional values, and its rules."""

    name: str
    flags: frozenset[str]
    valued: frozenset[str]
    optional: frozenset[str] = frozenset()
    #: Options that need one of others.
    only_with: Mapping[str, frozenset[str]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    #: Options that can be repeated.
    repeatable: frozenset[str] = frozenset()
    #: Defaults in KIP-932 that no release has.
    of_the_kip: Mapping[str, str] = field(default_factory=dict)
    #: Options that earlier releases lack, with the first release that has them.
    since: Mapping[str, str] = field(default_factory=dict)
    #: Defaults of earlier releases: the first release that has another, and the earlier default.
    earlier: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: Patterns of values that the tool parses only when it runs.
    forms: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def of_version(self, version: str | None) -> Tool:
        """Return the tool of a version; None: the newest."""
        later = {name for name, first in self.since.items() if not has_reached(version, first)}
        defaults = dict(self.defaults)
        for name, (first, value) in self.earlier.items():
            if not has_reached(version, first):
                defaults[name] = value
        return replace(
            self,
            flags=self.flags - later,
            valued=self.valued - later,
            rules=tuple(rule for rule in self.rules if rule.is_of(version)),
            defaults=defaults,
        )

    @property
    def options(self) -> frozenset[str]:
        """All options of the tool."""
        return self.flags | self.valued | self.optional


def _has(*names: str) -> Callable[[Given], bool]:
    return lambda given: all(name in given for name in names)


def _lacks(name: str, *others: str) -> Callable[[Given], bool]:
    return lambda given: name in given and not any(other in given for other in others)


_ACTIONS = ("list", "describe", "delete", "delete-offsets", "reset-offsets")
_TO = ("to-datetime", "to-earliest", "to-latest", "to-offset", "to-current", "from-file")
_SCOPES = ("topic", "all-topics", "from-file")
_TARGETS = "such as --to-earliest, --to-latest or --to-datetime TIME"
_SERVER = Rule(lambda given: "bootstrap-server" not in given, "bootstrap-server",
               "it is required", "add --bootstrap-server HOST:PORT")  # fmt: skip


_NUMBER = r"[+-]?\d+", "it is not a whole number"
_DAY, _CLOCK = r"\d+-(0?[1-9]|1[0-2])-(0?[1-9]|[12]\d|3[01])", r"([01]?\d|2[0-3])(:[0-5]?\d){2}"
_STATES = "(empty|stable|dead)"


def _is_implemented(action: str, first: str) -> Rule:
    """Return the rule for an action that earlier releases parse, but do not implement."""
    why = f"before Kafka {first} the tool only says that it is not yet implemented"
    return Rule(_has(action), action, why, f"use the tool of Kafka {first} or newer", until=first)


def _several(*names: str, of: str) -> Callable[[Given], bool]:
    return lambda given: of in given and sum(name in given for name in names) > 1


SHARE_GROUPS = Tool(
    "kafka-share-groups.sh",
    frozenset([
        *_ACTIONS,
        *("all-topics", "all-groups", "dry-run", "execute", "to-earliest", "to-latest"),
        *("members", "offsets", "verbose", "help", "version", "to-current", "export"),
    ]),
    frozenset([
        *("bootstrap-server", "group", "topic", "timeout", "command-config", "to-datetime"),
        *("to-offset", "from-file"),
    ]),
    frozenset(["state"]),
    {
        **dict.fromkeys(("members", "offsets", "verbose"), frozenset(["describe"])),
        "state": frozenset(["describe", "list"]),
    },
    (
        _SERVER,
        Rule(_lacks("describe", "group", "all-groups"), "describe",
             "it needs --group or --all-groups"),
        Rule(_several("members", "offsets", "state", of="describe"), "describe",
             "it takes one of --members, --offsets and --state"),
        Rule(lambda given: "describe" in given and any(given.get("state", [None])), "state",
             "it takes no value with --describe", "use --list to filter by state"),
        Rule(_lacks("delete", "group", "all-groups"), "delete",
             "it needs --group or --all-groups"),
        Rule(_has("delete", "topic"), "topic", "--delete deletes whole groups",
             "--delete-offsets deletes those of a topic"),
        Rule(_has("delete", "all-topics"), "all-topics", "--delete deletes whole groups",
             "leave it out: offsets of all topics are deleted with the group", since=_LATER),
        Rule(lambda given: "delete-offsets" in given and not _has("group", "topic")(given),
             "delete-offsets", "it needs --group and --topic"),
        Rule(_has("reset-offsets", "dry-run", "execute"), "reset-offsets",
             "--dry-run and --execute cannot be combined"),
        Rule(_lacks("reset-offsets", "dry-run", "execute"), "reset-offsets",
             "it needs --dry-run or --execute",
             "add --dry-run first; sharelag plan-reset says what would come again"),
        Rule(_lacks("reset-offsets", "group"), "reset-offsets", "it needs --group"),
        Rule(_several(*_TO, of="reset-offsets"), "reset-offsets", "it takes only one target",
             _TARGETS),
        _is_implemented("delete", "4.1"),
        _is_implemented("delete-offsets", "4.1"),
        _is_implemented("reset-offsets", "4.2"),
        Rule(_has("group", "all-groups"), "group", "it cannot be combined with --all-groups"),
        Rule(_has("group", "list"), "group", "it cannot be combined with --list"),
        Rule(_has("topic", "list"), "topic", "it cannot be combined with --list"),
        Rule(_has("topic", "describe"), "topic", "it cannot be combined with --describe"),
        Rule(lambda given: sum(name in given for name in _ACTIONS) != 1, "action",
             "exactly one is needed",
             "choose one of " + ", ".join(f"--{name}" for name in _ACTIONS)),
        Rule(_lacks("reset-offsets", *_TO), "reset-offsets", "it needs a target", _TARGETS,
             since="4.2"),
        Rule(_lacks("reset-offsets", *_SCOPES), "reset-offsets",
             "it needs --topic or --all-topics", since="4.2"),
        Rule(_several(*_SCOPES, of="reset-offsets"), "reset-offsets",
             "it takes one of --topic, --all-topics and --from-file", since=_LATER),
    ),
    {"timeout": "30000"},
    frozenset(["group", "topic"]),
    {"timeout": "5000"},
    since={
        **dict.fromkeys(("to-offset", "to-current", "from-file", "export"), _LATER),
        **dict.fromkeys(("all-groups", "verbose"), "4.1"),
    },
    earlier={"timeout": ("4.1", "5000")},
    forms={
        **dict.fromkeys(("timeout", "to-offset"), _NUMBER),
        "to-datetime": (rf"{_DAY}T{_CLOCK}\.0*\d{{1,3}}(Z|[+-]\d\d.*)?",
                        "it is not a time such as 1999-12-31T23:57:00.000"),
        "state": (rf"(?i){_STATES}(\s*,\s*{_STATES})*", "the states are Empty, Stable and Dead"),
    },
)  # fmt: skip

CONSOLE = Tool(
    "kafka-console-share-consumer.sh",
    frozenset([
        *("reject-message-on-error", "reject", "release"),
        *("enable-systest-events", "help", "version"),
    ]),
    frozenset([
        *("topic", "consumer-property", "command-property", "consumer-config"),
        *("command-config", "formatter", "property", "formatter-property"),
        *("formatter-config", "max-messages", "timeout-ms", "bootstrap-server"),
        *("key-deserializer", "value-deserializer", "group"),
    ]),
    rules=(
        Rule(lambda given: "topic" not in given, "topic", "it is required", "add --topic TOPIC"),
        _SERVER,
        Rule(_has("reject", "release"), "reject", "it cannot be combined with --release"),
        *(
            Rule(_has(old, new), old, f"it is the old name of --{new}, which is also given")
            for old, new in (
                ("property", "formatter-property"),
                ("consumer-property", "command-property"),
                ("consumer-config", "command-config"),
            )
        ),
    ),
    defaults={
        "group": "console-share-consumer",
        "formatter": "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
    },
    repeatable=frozenset(
        ["property", "formatter-property", "consumer-property", "command-property"]
    ),
    of_the_kip={"group": "share"},
    since={
        **dict.fromkeys(("command-config", "command-property", "formatter-property"), "4.2"),
        "enable-systest-events": "4.1",
    },
    forms=dict.fromkeys(("max-messages", "timeout-ms"), _NUMBER),
)  # fmt: skip
TOOLS = {tool.name: tool for tool in (SHARE_GROUPS, CONSOLE)}


@dataclass(frozen=True)
class Checked:
    """A command line: its options with their values, and its problems."""

    tool: Tool
    given: Given
    problems: tuple[Problem, ...]

    @property
    def in_force(self) -> dict[str, str]:
        """Defaults of options that were not given."""
        return {name: value for name, value in self.tool.defaults.items() if name not in self.given}


def check_command(words: Sequence[str], kafka_version: str | None = None) -> Checked:
    """Check a command line: the name of a tool, with or without a folder, and its arguments.

    A command of an unknown tool is an InputError.
    """
    name = words[0].rpartition("/")[2] if words else ""
    tool = TOOLS.get(name if name.endswith(".sh") else f"{name}.sh")
    if tool is None:
        raise InputError(f"unknown tool {name!r}: choose one of {', '.join(TOOLS)}")
    given, wrong = _parse(tool, list(words[1:]))
    tool = tool.of_version(kafka_version)
    theirs = {option: values for option, values in given.items() if option in tool.options}
    for option in [option for option in given if option not in theirs]:
        why = f"{tool.name} has it from Kafka {tool.since[option]} on"
        hint = "use the tool of that release; it works with older brokers"
        wrong.append(_problem(given, option, why, hint))
    if {"help", "version"} & given.keys() and not wrong:
        return Checked(tool, given, ())
    for option, others in tool.only_with.items():
        if option in theirs and not others & given.keys():
            needed = " or ".join(f"--{other}" for other in sorted(others))
            wrong.append(_problem(given, option, f"it requires {needed}"))
    for option, values in given.items():
        if option in tool.valued - tool.repeatable and len(values) > 1:
            wrong.append(_problem(given, option, "it is given more than once"))
    for option, (form, why) in tool.forms.items():
        if not all(re.fullmatch(form, value) for value in theirs.get(option, ()) if value):
            wrong.append(_problem(given, option, why))
    # An option of another version, or a missing one, is reported as that option's own problem.
    broken = [rule for rule in tool.rules if rule.breaks(given) and rule.breaks(theirs)]
    found = [_problem(given, rule.option, rule.why, rule.hint) for rule in broken]
    return Checked(tool, given, (*wrong, *found))


def refusal(command: str, kafka_version: str) -> str:
    """Return why a version's tool refuses a command, written for bash; empty if it does not."""
    found = check_command(shlex.split(command), kafka_version).problems
    return "; ".join(
        f"{one.name}: {one.why}" + (f" ({one.hint})" if one.hint else "") for one in found
    )


def _problem(given: Given, option: str, why: str, hint: str = "") -> Problem:
    values = [value for value in given.get(option, ()) if value is not None]
    return Problem(f"--{option}" if option != "action" else option, " ".join(values), why, hint)


def _parse(tool: Tool, words: list[str]) -> tuple[dict[str, list[str | None]], list[Problem]]:
    """Parse arguments like Kafka's option parser: no abbreviations, one dash or two."""
    given: dict[str, list[str | None]] = {}
    wrong: list[Problem] = []
    while words:
        word = words.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue  # Kafka ignores positional arguments
        name, equals, value = word.lstrip("-").partition("=")
        if name not in tool.options:
            wrong.append(_unknown(tool, word, name))
        elif name in tool.flags:
            given.setdefault(name, []).append(None)
            if equals:
                wrong.append(Problem(f"--{name}", value, "it takes no value"))
        else:
            given.setdefault(name, [])
            # A required value is the next word, even if it looks like an option.
            is_next = bool(words) and (name in tool.valued or not words[0].startswith("-"))
            if equals:
                given[name].append(value)
            elif is_next:
                given[name].append(words.pop(0))
            elif name in tool.optional:
                given[name].append(None)
            else:
                wrong.append(Problem(f"--{name}", "", "it needs a value"))
    return given, wrong


def _unknown(tool: Tool, word: str, name: str) -> Problem:
    near = get_close_matches(name, tool.options, 1)
    hint = f"did you mean --{near[0]}?" if near else ""
    return Problem(word.partition("=")[0], "", f"{tool.name} has no such option", hint)
