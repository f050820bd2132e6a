"""Rule files: YAML, validated with the line and column of every mistake.

A rule compares one measure of the groups that it names with a warning and a critical level:

    lag          offsets, of a whole group or of each share partition (`per`)
    age          age of the oldest unfinished record
    drain        time until the lag is gone at the observed rates; infinite while it grows
    poison       offsets held by records that fail at every delivery
    window       part of share.partition.max.record.locks in use, from 0 to 1
    imbalance    of lag over the share partitions of a group (`figure`)
    retention    time until the oldest unfinished record may be deleted: less is worse
    state_topic  number of findings about the state topic (`findings`)
    cause        offsets held by any of the `causes` that `sharelag explain` names

A value that could not be read, or does not go back far enough, gets the level `unknown`. The lag of
a share partition that was never fetched consists of the records that wait there, if known: none if
none ever arrived, and all if the group starts at the earliest offset. A rule with `not_started`
does not measure such share partitions, and gives them that level.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

import yaml
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sharelag.durations import parse_duration
from sharelag.errors import InputError, first_line
from sharelag.inputs.texts import read_text
from sharelag.metrics.causes import known_causes

#: The path of a value, as pydantic names it, line and column of its key, whether the key repeats.
Place: TypeAlias = tuple[tuple[Any, ...], tuple[int, int], bool]
#: Maximum number of values in a text, counting an alias as all values of its anchor: a few lines of
#: nested aliases would be billions.
_MOST_VALUES = 100_000
#: Maximum number of characters: PyYAML takes some 350 bytes for each, before values are counted.
_MOST_CHARACTERS = 1 << 20
Measure: TypeAlias = Literal[
    "lag", "age", "drain", "poison", "window", "imbalance", "retention", "state_topic", "cause"
]  # fmt: skip
FINDINGS = ("misplaced", "non_durable_state", "undecodable", "missing", "holds_pruning")
#: Measures of time, whose levels are durations.
TIMED = frozenset({"age", "drain", "retention"})
#: Maximum number of mistakes in a message.
_MOST_MISTAKES = 20
_WORDS = {
    "extra_forbidden": "unknown key",
    "missing": "is missing",
    "too_short": "is empty",
    "model_type": "must be a mapping of keys to values",
    "timezone_aware": "add a time zone, such as Z",
}
#: Keys that apply to some measures only.
_GROUP_MEASURES = set(get_args(Measure)) - {"state_topic"}
_ONLY = {
    "topics": {"lag", "age", "drain", "poison", "window", "retention", "cause"},
    "per": {"lag"},
    "figure": {"imbalance"},
    "min_lag": {"imbalance"},
    "causes": {"cause"},
    "patience": {"cause"},
    "findings": {"state_topic"},
    "groups": _GROUP_MEASURES,
    "for": _GROUP_MEASURES,
    "hysteresis": {"lag", "age", "drain", "window", "imbalance", "retention"},
    "not_started": _GROUP_MEASURES,
}
Patterns: TypeAlias = Annotated[tuple[str, ...], Field(min_length=1)]


def parse_yaml(text: str, name: str) -> tuple[Any, list[Place]]:
    """Parse a YAML document, which messages call ``name``; return its data and their positions.

    It is an `InputError` if it is not YAML, is too long or nested too deeply, or has aliases that
    stand for too many values.
    """
    if len(text) > _MOST_CHARACTERS:
        raise InputError(f"{name}: more than {_MOST_CHARACTERS:,} characters: write fewer")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None, []
        if _size(node, {}) > _MOST_VALUES:
            raise InputError(
                f"{name}: more than {_MOST_VALUES:,} values: write fewer values or aliases"
            )
        return loader.construct_document(node), list(_places(node, ()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise InputError(f"{where}: invalid YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise InputError(f"{name}: invalid YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{name}: invalid YAML: {first_line(error)}") from None
    except (ArithmeticError, LookupError, AttributeError):
        # PyYAML's constructors raise these if a value does not fit its tag, such as `!!bool x`.
        raise InputError(f"{name}: invalid YAML: a value is not of the type of its tag") from None


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values of a node, with each alias as all values of its anchor."""
    if id(node) not in known:
        known[id(node)] = 1  # in case an anchor contains itself
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        known[id(node)] += sum(_size(child, known) for child in children)
    return known[id(node)]


def _places(node: yaml.Node, path: tuple[Any, ...]) -> Iterator[Place]:
    """Yield the path of every value, as pydantic names it, and the position of its key."""
    if not path:
        yield path, _mark(node), False
    if len(path) > 4:  # deeper than any rule; an anchor may even contain itself
        return
    if isinstance(node, yaml.SequenceNode):
        for number, child in enumerate(node.value):
            yield (*path, number), _mark(child), False
            yield from _places(child, (*path, number))
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, child in node.value:
            yield (*path, key.value), _mark(key), key.value in seen
            seen.add(key.value)
            yield from _places(child, (*path, key.value))


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line, node.start_mark.column


def _duration(value: Any) -> timedelta:
    """Parse a duration; a number alone is ambiguous: seconds or minutes."""
    try:
        return parse_duration(str(value))
    except InputError as error:
        raise ValueError(str(error)) from None


Duration: TypeAlias = Annotated[timedelta, BeforeValidator(_duration), Field(ge=timedelta(0))]


class _Strict(BaseModel):
    """A model that rejects unknown keys: a misspelt key would silently disable a rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Strict):
    """One rule. Levels of durations are in milliseconds."""

    name: Annotated[str, Field(min_length=1)]
    measure: Measure
    groups: Patterns = ("*",)  # shell patterns: billing, order-*
    topics: Patterns = ("*",)
    warn: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    critical: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    lasting: Annotated[Duration, Field(alias="for")] = timedelta(0)
    # A level ends when the value is better than it by this fraction.
    hysteresis: Annotated[float, Field(ge=0, lt=1)] = 0.0
    # The outcome if the value could not be read, or does not go back far enough.
    unknown: Literal["ok", "warn", "critical", "unknown"] = "unknown"
    # The outcome if nothing was ever fetched; None: judge the waiting records, if known.
    not_started: Literal["ok", "warn", "critical", "unknown"] | None = None
    per: Literal["group", "partition"] = "group"
    figure: Literal["max_mean", "gini", "cv", "top_share"] = "max_mean"
    min_lag: Annotated[StrictInt, Field(ge=0)] = 0  # up to this lag, imbalance is ignored
    causes: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    # How long nothing may happen before that is a cause; by default the lock duration.
    patience: Duration | None = None
    findings: Annotated[tuple[Literal[FINDINGS], ...], Field(min_length=1)] = FINDINGS  # type: ignore[valid-type]

    @field_validator("*", mode="before")
    @classmethod
    def _belongs(cls, value: Any, info: ValidationInfo) -> Any:
        name = "for" if info.field_name == "lasting" else str(info.field_name)
        measure = info.data.get("measure")
        if measure and name in _ONLY and measure not in _ONLY[name]:
            raise ValueError(f"does not apply to the measure {measure}: remove it")
        return value

    @field_validator("warn", "critical", mode="before")
    @classmethod
    def _level(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool):
            raise ValueError("expected a number or a duration")
        if info.data.get("measure") in TIMED:
            return _duration(value) / timedelta(milliseconds=1)
        if isinstance(value, str):
            raise ValueError("expected a number, without quotes, unit or exponent")
        return value

    @field_validator("critical")
    @classmethod
    def _beyond(cls, value: float | None, info: ValidationInfo) -> float | None:
        warn, sign = info.data.get("warn"), _sign(info.data.get("measure"))
        if value is not None and warn is not None and (value - warn) * sign < 0:
            raise ValueError("must be worse than warn")
        return value

    @field_validator("causes")
    @classmethod
    def _known(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        known = [cause.name for cause in known_causes()] if value else []
        for name in value or ():
            if name not in known:
                raise ValueError(f"unknown cause {name!r}: choose from {', '.join(known)}")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.warn is None and self.critical is None:
            raise ValueError("set warn, critical or both")
        if self.measure == "cause" and self.causes is None:
            raise ValueError(
                "the measure cause needs causes: a list of names as `sharelag explain` prints them"
            )
        return self

    @property
    def sign(self) -> int:
        """1 if more is worse, -1 if less is."""
        return _sign(self.measure)


class Silence(_Strict):
    """A known problem that raises no alarm until a given time."""

    until: AwareDatetime
    since: Annotated[AwareDatetime | None, Field(alias="from")] = None
    rules: Patterns = ("*",)
    groups: Patterns = ("*",)
    reason: str = ""

    @model_validator(mode="after")
    def _lasting(self) -> Self:
        if self.since is not None and self.since >= self.until:
            raise ValueError("from must be before until, or nothing is ever silenced")
        return self


class Rules(_Strict):
    """A rule file."""

    version: Literal[1]
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]
    silences: tuple[Silence, ...] = ()

    @field_validator("rules")
    @classmethod
    def _require_unique(cls, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        names = [rule.name for rule in rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two rules have the name {twice[0]!r}: names must be unique")
        return rules


def read_rules(path: Path) -> Rules:
    """Read a rule file; an `InputError` has the line and column of each mistake."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"cannot read the rules {path} ({why}): choose a YAML file") from error
    return parse_rules(text, str(path))


def parse_rules(text: str, name: str = "rules") -> Rules:
    """Parse the text of a rule file; ``name`` is its name in messages."""
    data, places = parse_yaml(text, name)
    marks: dict[tuple[Any, ...], tuple[int, int]] = {(): (0, 0)}
    problems: list[tuple[tuple[int, int], str]] = []
    for path, place, is_again in places:
        if is_again:
            problems.append((place, f"{path[-1]}: duplicate key"))
        marks.setdefault(path, place)
    try:
        rules = Rules.model_validate({} if data is None else data)
    except ValidationError as error:
        errors = error.errors()
        for found in errors:
            loc = found["loc"]
            # pydantic also reports a list whose items are all wrong as empty.
            within = (one["loc"][: len(loc)] == loc != one["loc"] for one in errors)
            if found["type"] == "too_short" and any(within):
                continue
            known = next(loc[:n] for n in range(len(loc), -1, -1) if loc[:n] in marks)
            problems.append((marks[known], _words(loc, _WORDS.get(found["type"], found["msg"]))))
    if problems:
        lines = [f"{name}:{at[0] + 1}:{at[1] + 1}: {words}" for at, words in sorted(problems)]
        if more := lines[_MOST_MISTAKES:]:
            lines = [*lines[:_MOST_MISTAKES], f"and {len(more):,} more"]
        raise InputError("; ".join(lines))
    return rules


def _sign(measure: object) -> int:
    return -1 if measure == "retention" else 1


def _words(loc: tuple[int | str, ...], message: str) -> str:
    what = next((str(part) for part in reversed(loc) if isinstance(part, str)), "the file")
    return f"{what}: {message.removeprefix('Value error, ')}"
