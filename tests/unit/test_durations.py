"""One grammar of durations, wherever people type time."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag.cli import cli
from sharelag.cli.options import Duration
from sharelag.durations import UNITS, duration, parse_duration, parse_span, spell
from sharelag.errors import InputError
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.replay.moment import parse_moment, parse_since
from sharelag.whatif import Goal, from_json, named, to_json
from sharelag.whatif.autoscale import autoscaler_of
from tests.support.command import ask, refused, sharelag

DEMO = Path(__file__).parents[2] / "data" / "captures" / "chapters"
WRONG = ("5 parsecs", "", " ", "m", "1h1h", "30m1h", "-5s", "+5s", "5", "1e3s", "1,5h", "nan", "5M")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("500ms", 0.5), ("30s", 30), ("5m", 300), ("2h", 7200)),
        *(("1d", 86_400), ("1h30m", 5400), (" 1h 30 m ", 5400)),
        *(("1d2h3m4s5ms", 93_784.005), ("1.5h", 5400), (".5s", 0.5)),
        *(("0s", 0), ("5 minutes", 300), ("1 day 2 hours 30min 1 sec 5ms", 95_401.005)),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", WRONG)
def test_invalid_durations_have_one_message(text: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_duration(text)
    found = str(raised.value)
    assert found == f"invalid duration {text!r}: use a number with a unit, such as 30s, 5m or 2h"


def test_a_number_alone_is_taken_where_its_unit_is_known() -> None:
    for number in ("90", "90.0", "9e1", 90, 90.0):
        assert parse_duration(number, bare="s") == timedelta(seconds=90)
    assert parse_duration("250", bare="ms") == timedelta(milliseconds=250)
    for wrong in ("nan", "inf", "-1", "1e", "0x10"):
        with pytest.raises(InputError, match="invalid duration"):
            parse_duration(wrong, bare="s")
    for long in ("1e300", "999999999999d", "366000d"):
        with pytest.raises(InputError, match=f"invalid duration '{long}': it is too long"):
            parse_duration(long, bare="s")


@pytest.mark.parametrize("wrong", ["soon", 0, "0s", "-1min", timedelta(0), timedelta(-1)])
def test_a_span_is_longer_than_0(wrong: Any) -> None:
    with pytest.raises(InputError, match="invalid duration"):
        parse_span(wrong)


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=10_000)))
def test_what_is_typed_is_read_back(one: timedelta) -> None:
    assert parse_duration(spell(one)) == one


@given(st.floats(min_value=1, max_value=1e12))
def test_what_is_displayed_is_read_back_to_its_two_units(milliseconds: float) -> None:
    back = parse_duration(duration(milliseconds)) / timedelta(milliseconds=1)
    assert back == pytest.approx(milliseconds, rel=0.05)


@given(st.lists(st.integers(0, 9999), min_size=len(UNITS), max_size=len(UNITS)))
def test_parts_add_up(counts: list[int]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in zip(counts, UNITS, strict=True))
    total = sum((c * u for c, u in zip(counts, UNITS.values(), strict=True)), timedelta())
    assert parse_duration(text) == total


def test_every_place_reads_the_same() -> None:
    ninety = timedelta(seconds=90)
    rule = "{name: a, measure: age, warn: 1m30s, for: 1m30s}"
    (read,) = parse_rules(f"version: 1\nrules: [{rule}]").rules
    assert (read.warn, read.lasting, Goal.parse("age_p95<1m30s").limit) == (90_000, ninety, 90_000)
    assert autoscaler_of("target-age:goal=1m30s") == autoscaler_of("target-age:goal=90s")
    assert parse_span("1m30s") == parse_span(90) == parse_span("90sec") == ninety
    assert Duration().convert("1m30s", None, None) == ninety
    end = parse_moment("2026-11-21T03:10:00Z")
    assert parse_since("1m30s", lambda: end, parse_moment) == end - ninety  # type: ignore


def test_a_number_without_a_unit_is_refused_everywhere() -> None:
    needs = "invalid duration '90': use a number with a unit, such as 30s, 5m or 2h"
    for read in (
        parse_span,
        lambda text: autoscaler_of(f"target-age:goal={text}"),
        lambda text: Duration().convert(text, None, None),
    ):
        with pytest.raises((InputError, click.BadParameter)) as raised:
            read("90")
        assert needs in str(raised.value)
    for rule in ("warn: 90", "warn: 5m, for: 90"):
        with pytest.raises(InputError, match="use a number with a unit"):
            parse_rules(f"version: 1\nrules: [{{name: a, measure: age, {rule}}}]")
    with pytest.raises(InputError, match="the limit needs a unit, such as age_p95<90ms"):
        Goal.parse("age_p95_ms<90")


def test_a_number_alone_is_milliseconds_for_kafkas_timeout() -> None:
    for command in cli.commands.values():
        for option in command.params:
            if isinstance(option.type, Duration) and not getattr(option, "hidden", False):
                assert option.type.bare == ("ms" if option.name == "timeout" else None), option.name


def test_scenario_files_take_durations() -> None:
    text = to_json(named("gaps"))
    milliseconds = named("gaps").duration_ms
    given = text.replace(f'"duration_ms":{milliseconds}', '"duration_ms":"1h30m"')
    assert given != text
    assert from_json(given).duration_ms == 5_400_000
    with pytest.raises(InputError, match="duration_ms: invalid duration '5 parsecs': use a number"):
        from_json(given.replace("1h30m", "5 parsecs"))


def test_the_command_line_says_what_is_wrong_and_takes_a_span_for_since() -> None:
    said = refused("progress", "--capture", str(DEMO), "--over", "5 parsecs", code=2)
    assert "invalid duration '5 parsecs': use a number with a unit, such as 30s" in said
    told = refused("history", "--capture", str(DEMO), "--every", "0s", code=2)
    assert "give a duration between 1ms and 3650d, not '0s'" in told
    asked = ("history", "--capture", str(DEMO), "-o", "csv")
    whole, last = (sharelag(*asked, *m).stdout.splitlines() for m in ((), ("--since", "1m")))
    assert 1 < len(last) < len(whole)
    assert last[0] == whole[0]
    assert set(last) < set(whole)
    asks = (f"windows --since {span} --capture" for span in ("1d", "30000d"))  # before 1970
    changed, always = (ask(one, str(DEMO)) for one in asks)
    assert len(changed) == len(always) > 0
    assert all("change" in row for row in changed)


def test_a_fraction_of_a_millisecond_is_read_as_one() -> None:
    found = [duration(ms) for ms in (0, 0.425, 0.0312, 1, 425)]
    assert found == [*("0 s", "0.425 ms", "0.0312 ms", "0.001 s", "0.425 s")]
