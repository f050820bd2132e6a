"""Times of request logs in the layouts of log libraries, container runtimes and collectors."""

import gzip
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import zip_longest
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sharelag.inputs.files.text_pieces import pieces_of
from tests.support.cases import few_of
from tests.support.command import ask, refused
from tests.support.command import sharelag as command
from tests.support.request_lines import acknowledge, fetch

TEXTS = Path(__file__).parents[2] / "data" / "texts"
BERLIN = timezone(timedelta(hours=1))
#: When the requests of `FETCHES` were completed.
FIRST = datetime(2026, 11, 21, 9, 0, 0, 123_456, UTC)
MOMENTS = (FIRST, FIRST + timedelta(seconds=1, milliseconds=333))
FETCHES = (fetch(0, "m1", 0, [(0, 9, 1)]), fetch(0, "m2", 0, [(10, 19, 1)]))
SAID = [re.sub(r"^\[.*?\] DEBUG |,?\s\(kafka.*$", "", one) for one in FETCHES]
WHEN_AND_WHAT = [*zip(MOMENTS, SAID, strict=True)]
LOCKS = [(0, 9, "m1"), (10, 19, "m2")]


def own(at: datetime, layout: str = "%Y-%m-%d %H:%M:%S,", digits: int = 3) -> str:
    """A time as a library of logs writes it, with so many digits of a second."""
    return at.strftime(layout) + f"{at.microsecond:06}000"[:digits]


def local(at: datetime) -> datetime:
    return at.astimezone(BERLIN)


def runtime(at: datetime) -> str:
    """A time as kubectl and container runtimes write it."""
    return own(at, "%Y-%m-%dT%H:%M:%S.", 9) + "Z"


def in_zone(at: datetime, hours: float, layout: str = "%Y-%m-%d %H:%M:%S,") -> str:
    """A time of a place so far ahead of UTC."""
    return own(at.astimezone(timezone(timedelta(hours=hours))), layout)


def cells(*texts: str) -> str:
    """A line of CSV."""
    return ",".join('"' + text.replace('"', '""') + '"' for text in texts)


def otlp(at: datetime, said: str) -> dict[str, object]:
    return {"timeUnixNano": f"{epoch(at)}000000", "body": {"stringValue": said}}


def cloud(at: datetime, said: str) -> dict[str, object]:
    late = runtime(at + timedelta(seconds=5))
    return {"receiveTimestamp": late, "textPayload": said, "timestamp": runtime(at)}


def exported(*records: dict[str, object]) -> str:
    """What an OpenTelemetry collector writes into a file: a line a batch."""
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [*records]}]}]})


def escaped(said: str, **more: object) -> str:
    return json.dumps({"level": "DEBUG", "message": said, "logger": "kafka.request.logger"} | more)


def docker(line: str, at: datetime) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stdout", "time": runtime(at)})


def epoch(at: datetime) -> int:
    return int(at.timestamp() * 1000)


#: What the line of a request is in each layout; local times are those of Berlin.
LAYOUTS: dict[str, Callable[[datetime, str], str]] = {
    "log4j": lambda at, said: f"[{own(at)}] DEBUG {said} (kafka.request.logger)",
    "log4j2 ISO8601": lambda at, said: f"{own(at, '%Y-%m-%dT%H:%M:%S,')} DEBUG {said}",
    "log4j2 BASIC": lambda at, said: f"{own(at, '%Y%m%dT%H%M%S,')} DEBUG {said}",
    "log4j2 COMPACT": lambda at, said: f"{own(at, '%Y%m%d%H%M%S')} DEBUG {said}",
    "log4j2 DATE": lambda at, said: f"{own(at, '%d %b %Y %H:%M:%S,')} DEBUG {said}",
    "slashes": lambda at, said: f"{own(at, '%Y/%m/%d %H:%M:%S.')} DEBUG {said}",
    "German": lambda at, said: f"{own(at, '%d.%m.%Y %H:%M:%S,')} DEBUG {said}",
    "at the end": lambda at, said: f"DEBUG {said} {own(at)}",
    "micros": lambda at, said: f"{own(at, '%Y-%m-%dT%H:%M:%S.', 6)}Z DEBUG {said}",
    "nanos": lambda at, said: f"{own(local(at), '%Y-%m-%dT%H:%M:%S.', 9)}+01:00 {said}",
    "hours of a zone": lambda at, said: f"{own(local(at), '%Y-%m-%dT%H:%M:%S,')}+01 {said}",
    "name of a zone": lambda at, said: f"[{own(local(at))} CET] DEBUG {said}",
    "zone apart": lambda at, said: f"{own(local(at))} +0100 DEBUG {said}",
    "region": lambda at, said: (
        f"{own(local(at), '%Y-%m-%dT%H:%M:%S.')}+01:00[Europe/Berlin] {said}"
    ),
    "epoch": lambda at, said: f"{epoch(at)} DEBUG {said}",
    "ECS": lambda at, said: escaped(said, **{"@timestamp": own(at, "%Y-%m-%dT%H:%M:%S.") + "Z"}),
    "logstash": lambda at, said: json.dumps(
        {"@timestamp": own(local(at), "%Y-%m-%dT%H:%M:%S.") + "+01:00", "message": said}
    ),
    "JsonLayout": lambda at, said: escaped(
        said, instant={"epochSecond": int(at.timestamp()), "nanoOfSecond": 1000 * at.microsecond}
    ),
    "timeMillis": lambda at, said: escaped(said, timeMillis=epoch(at)),
    "kubectl": lambda at, said: f"{runtime(at)} [{own(local(at))}] DEBUG {said}",
    "CRI": lambda at, said: f"{runtime(at)} stdout F [{own(local(at))}] DEBUG {said}",
    "CRI of a zone": lambda at, said: (
        f"{own(at.astimezone(timezone(timedelta(hours=-5))), '%Y-%m-%dT%H:%M:%S.', 9)}-05:00 "
        f"stderr F [{own(local(at))}] DEBUG {said}"
    ),
    "docker": lambda at, said: docker(f"[{own(local(at))}] DEBUG {said}", at),
    "docker of JSON": lambda at, said: docker(
        escaped(said, timestamp=own(local(at), "%Y-%m-%dT%H:%M:%S.")), at
    ),
    "kubectl of JSON": lambda at, said: f"{runtime(at)} {escaped(said, timeMillis=epoch(at))}",
    "journald": lambda at, said: (
        f"{local(at):%Y-%m-%dT%H:%M:%S}+0100 host kafka[7]: [{own(local(at))}] DEBUG {said}"
    ),
    "stern": lambda at, said: f"broker-0 kafka {runtime(at)} {local(at):%Y-%m-%d %H:%M:%S} {said}",
    "name of a zone and hours": lambda at, said: f"[{in_zone(at, 1)} GMT+01:00] DEBUG {said}",
    "UTC and hours": lambda at, said: f"[{in_zone(at, 3)} UTC+3] DEBUG {said}",
    "minus of typographers": lambda at, said: f"{in_zone(at, -8)} \u221208:00 DEBUG {said}",
    "Singapore": lambda at, said: f"[{in_zone(at, 8)} SGT] DEBUG {said}",
    "several zones, beside UTC": lambda at, said: f"{runtime(at)} [{in_zone(at, 5.5)} IST] {said}",
    "month with a point": lambda at, said: f"{own(at, '%d %b. %Y %H:%M:%S,')} DEBUG {said}",
    "day and month with points": lambda at, said: f"{own(at, '%d. %b %Y %H:%M:%S,')} DEBUG {said}",
    "comma and blank": lambda at, said: f"{own(at, '%Y-%m-%d, %H:%M:%S,')} DEBUG {said}",
    "two blanks": lambda at, said: f"{own(at, '%Y-%m-%d  %H:%M:%S,')} DEBUG {said}",
    "colours": lambda at, said: f"\x1b[32m{own(at)}\x1b[m \x1b[36mDEBUG\x1b[m {said}\x1b[m",
    "context": lambda at, said: f"[{own(at)}] DEBUG {said} {{user=a, span={{id=7}}}}",
    "empty context": lambda at, said: f"[{own(at)}] DEBUG {said} {{}}",
    "log4j's XML": lambda at, said: f'<event timestamp="{epoch(at)}"><![CDATA[{said}]]></event>',
    "logfmt": lambda at, said: f"time={runtime(at)} level=debug msg={json.dumps(said)}",
    "compose": lambda at, said: f"kafka-1  | [{own(at)}] DEBUG {said}",
    "fluentd": lambda at, said: (
        f"{own(at, '%Y-%m-%d %H:%M:%S.', 9)} +0000 kube.kafka: "
        + json.dumps({"log": f"[{own(local(at))}] DEBUG {said}", "stream": "stdout"})
    ),
    "fluent-bit": lambda at, said: json.dumps({"date": at.timestamp(), "log": f"DEBUG {said}"}),
    "fluent-bit, its stdout": lambda at, said: (
        f'[0] kube: [[{at.timestamp():.9f}, {{}}], {{"log"=>"[{own(local(at))}] DEBUG {said}"}}]'
    ),
    "vector": lambda at, said: json.dumps(
        {"file": "/var/log/k", "message": f"[{own(local(at))}] {said}", "timestamp": runtime(at)}
    ),
    "journal as JSON": lambda at, said: json.dumps(
        {"__REALTIME_TIMESTAMP": f"{epoch(at)}456", "__MONOTONIC_TIMESTAMP": "7", "MESSAGE": said}
    ),
    "journal": lambda at, said: f"{local(at):%b %d %H:%M:%S.%f} host kafka[7]: [{own(at)}] {said}",
    "GELF": lambda at, said: json.dumps(
        {"short_message": said, "full_message": f"DEBUG {said}", "timestamp": epoch(at) / 1000}
    ),
    "loki": lambda at, said: (
        f'{local(at):%Y-%m-%dT%H:%M:%S}+01:00 {{app="kafka"}} [{own(local(at))}] DEBUG {said}'
    ),
    "cells": lambda at, said: cells(own(at), f"DEBUG {said}", "kafka.request.logger"),
    "cells of JSON": lambda at, said: cells("7", escaped(said, time=own(at)), "x"),
    "cloud": lambda at, said: json.dumps(cloud(at, f"[{own(at)}] DEBUG {said}")),
    "OpenTelemetry": lambda at, said: exported(otlp(at, said)),
    "syslog": lambda at, said: f"<7>1 {own(at, '%Y-%m-%dT%H:%M:%S.', 6)}Z host kafka 7 - - {said}",
}
#: Layouts to a second.
COARSE: dict[str, Callable[[datetime, str], str]] = {
    "Strimzi": lambda at, said: f"{at:%Y-%m-%d %H:%M:%S} DEBUG [thread-2] logger:274 - {said}",
    "ISO": lambda at, said: f"{at:%Y-%m-%dT%H:%M:%SZ} DEBUG {said}",
    "offset": lambda at, said: f"{local(at):%Y-%m-%d %H:%M:%S}+01:00 DEBUG {said}",
    "slashes": lambda at, said: f"{at:%Y/%m/%d %H:%M:%S} DEBUG {said}",
    "web server": lambda at, said: f"[{local(at):%d/%b/%Y:%H:%M:%S} +0100] DEBUG {said}",
    "epoch": lambda at, said: f"{int(at.timestamp())} DEBUG {said}",
    "mail": lambda at, said: f"{local(at):%a, %d %b %Y %H:%M:%S} +0100 DEBUG {said}",
    "twelve hours": lambda at, said: f"{at:%b %d, %Y %I:%M:%S} AM DEBUG {said}",
    "twelve hours after noon": lambda at, said: (
        f"{in_zone(at, 9, '%b %d, %Y, %I:%M:%S')[:-3]}\u202fPM JST DEBUG {said}"
    ),
    "noon": lambda at, said: f"{in_zone(at, 3, '%Y-%m-%d %I:%M:%S')[:-3]} pm +03 DEBUG {said}",
    "midnight": lambda at, said: (
        f"{in_zone(at, -9, '%b %d, %Y %I:%M:%S')[:-3]} a.m. -0900 DEBUG {said}"
    ),
    "JSON": lambda at, said: escaped(said, ts=f"{at:%Y-%m-%dT%H:%M:%S}Z"),
}


def held(path: Path, *options: str) -> list[tuple[int, int, str, datetime]]:
    """Locks that are held, by offset, member and moment."""
    names = ("first_offset", "last_offset", "member_id")
    return [
        (*(row[name] for name in names), datetime.fromisoformat(row["since"]))
        for row in ask("requests", str(path), *options)
    ]


def check(path: Path, *options: str, within: timedelta = timedelta(milliseconds=3)) -> None:
    found = held(path, *options)
    assert [one[:3] for one in found] == LOCKS
    for (*_, since), moment in zip(found, MOMENTS, strict=True):
        assert abs(since - moment) < within, (since, moment)


def written(folder: Path, layout: Callable[[datetime, str], str]) -> Path:
    path = folder / "kafka.log"
    lines = [layout(at, said) for at, said in WHEN_AND_WHAT]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


@pytest.mark.parametrize("name", LAYOUTS)
def test_times_of_a_layout_are_true_to_milliseconds(name: str, tmp_path: Path) -> None:
    check(written(tmp_path, LAYOUTS[name]))


@pytest.mark.parametrize("name", COARSE)
def test_times_of_a_layout_to_seconds_are_true_to_a_second(name: str, tmp_path: Path) -> None:
    check(written(tmp_path, COARSE[name]), within=timedelta(seconds=1))


#: How a collector writes two requests as one line.
BATCHES: dict[str, Callable[[], str]] = {
    "OpenTelemetry": lambda: exported(*(otlp(at, said) for at, said in WHEN_AND_WHAT)),
    "cloud": lambda: json.dumps([cloud(at, said) for at, said in WHEN_AND_WHAT]),
    "cells": lambda: json.dumps([f"{runtime(at)} {escaped(said)}" for at, said in WHEN_AND_WHAT]),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_line_with_several_requests_has_them_all(name: str, tmp_path: Path) -> None:
    path = tmp_path / "batches.json"
    path.write_text(f"{BATCHES[name]()}\n[]\n", "utf-8")
    check(path)
    done = command("requests", str(path))
    assert "3 lines: 2 requests about share groups, 0 that could not be read" in done.stderr
    at = [row["position"] for row in ask("requests", str(path), "--show", "requests")]
    assert path.read_bytes()[at[1] :].startswith(b"Completed") or at[0] < at[1]


def test_two_requests_that_run_into_each_other_are_rejects(tmp_path: Path) -> None:
    path = tmp_path / "kafka.log"
    path.write_text(f"{FETCHES[0]}\n{FETCHES[0]}{FETCHES[1]}\n")
    done = command("requests", str(path), "-o", "json", code=3)
    assert "it lacks 1 of 2 requests" in done.stderr


def cut_by_cri(*parts: str, at: str, stream: str) -> list[str]:
    return [*(f"{at} {stream} P {part}" for part in parts[:-1]), f"{at} {stream} F {parts[-1]}"]


def cut_by_docker(*parts: str, at: str, stream: str) -> list[str]:
    rows = ({"log": one, "stream": stream, "time": at} for one in (*parts[:-1], parts[-1] + "\n"))
    return [json.dumps(row, separators=(",", ":")) for row in rows]


CUTTERS = {"CRI": cut_by_cri, "Docker": cut_by_docker}


@pytest.mark.parametrize(
    ("runtime_", "alternating", "block"),
    [
        *(("CRI", True, 200), ("CRI", False, 8 << 20)),
        *(("Docker", False, 200), ("Docker", True, 8 << 20)),
    ],
)
def test_what_a_runtime_has_cut_is_put_together(
    runtime_: str, alternating: bool, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharelag.inputs.files.text_pieces._AT_ONCE", block)
    cut, path = CUTTERS[runtime_], tmp_path / "0.log"
    lines = [f"[{own(local(at))}] DEBUG {said}" for at, said in WHEN_AND_WHAT]
    streams = ("stdout", "stderr") if alternating else ("stdout", "stdout")
    parts = [
        cut(*(line[n : n + 300] for n in range(0, len(line), 300)), at=runtime(at), stream=stream)
        for line, at, stream in zip(lines, MOMENTS, streams, strict=True)
    ]
    assert min(map(len, parts)) > 2
    mixed = [part for each in (zip_longest(*parts) if alternating else parts) for part in each]
    mixed = list(filter(None, mixed))
    path.write_text("".join(f"{part}\n" for part in mixed))
    check(path)
    assert [one.end for one in pieces_of(path, 100, path)] == [None]
    path.write_text("".join(f"{part}\n" for part in mixed[:-1]))  # its end is in the next file
    done = command("requests", str(path), "-o", "json", code=3)
    assert len(done.stdout.splitlines()) == 1
    assert "it lacks 1 of 2 requests" in done.stderr


@pytest.mark.parametrize(
    ("name", "is_packed"), [("kafka-request.log.1", True), ("kafka-request.log.gz", False)]
)
def test_content_tells_whether_a_file_is_packed(name: str, is_packed: bool, tmp_path: Path) -> None:
    octets = written(tmp_path, LAYOUTS["log4j"]).read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(octets) if is_packed else octets)
    check(tmp_path / name)


#: A request of another kind, which is skipped; its time is one of the log, too.
BYSTANDER = SAID[0].replace('"requestApiKey":78', '"requestApiKey":0')


def shipped(folder: Path, *minutes: float, log: timezone = BERLIN, prompt: int = 0) -> Path:
    """A log of lines collected so many minutes after they were written, and of prompt ones."""
    path = folder / "late.log"
    late = list(zip(MOMENTS, SAID, minutes, strict=True))
    with path.open("w") as file:
        for at, said, wait in [*late, *[(MOMENTS[1], BYSTANDER, 0)] * prompt]:
            then = runtime(at + timedelta(minutes=wait))
            file.write(f"{then} [{own(at.astimezone(log))}] DEBUG {said}\n")
    return path


@pytest.mark.parametrize("minutes", [(0, 8), (0, 100), (0.5, 0), (12, 9)])
def test_late_lines_have_the_zone_of_the_log(minutes: tuple[float, float], tmp_path: Path) -> None:
    path = shipped(tmp_path, *minutes, prompt=3)
    check(path)
    said = command("requests", str(path)).stderr
    assert "its times are in the zone derived from a collector's times beside them" in said


#: Minutes at which a log in UTC was shipped: none tells a zone, or they do not agree.
@pytest.mark.parametrize("minutes", [(123, 123), (12, 9), (60, 200), (52, 53), (0, 30), (900, 900)])
def test_a_time_of_shipping_is_not_a_zone(minutes: tuple[float, float], tmp_path: Path) -> None:
    path = shipped(tmp_path, *minutes, log=timezone(timedelta(0)))
    check(path)
    said = command("requests", str(path)).stderr
    assert "its times read as UTC, since they name no zone: name it" in said


@pytest.mark.parametrize(
    ("zone", "late", "is_json"),
    [
        *(("UTC", 60, False), ("UTC", 0, True)),
        *(("Europe/Berlin", 123, True), ("Europe/Berlin", 60, False)),
        *(("Asia/Kolkata", 0, False), ("Asia/Kolkata", 123, True)),
    ],
)
def test_a_zone_that_is_named_wins(zone: str, late: int, is_json: bool, tmp_path: Path) -> None:
    path = tmp_path / "late.log"
    with path.open("w") as file:
        for at, said in WHEN_AND_WHAT:
            then = runtime(at + timedelta(minutes=late))
            line = f"[{own(at.astimezone(ZoneInfo(zone)))}] {said}"
            stamped = json.dumps({"@timestamp": then, "message": line})
            file.write(f"{stamped}\n" if is_json else f"{then} stdout F {line}\n")
    check(path, "--zone", zone)
    assert f"its times read as {zone}\n" in command("requests", str(path), "--zone", zone).stderr


#: Lines that have their own zone, whatever the one of the log is said to be.
@pytest.mark.parametrize("name", ["nanos", "zone apart", "syslog", "epoch", "ECS"])
@pytest.mark.parametrize("options", [(), ("--zone", "Asia/Tokyo")])
def test_lines_have_their_own_zone(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    path = written(tmp_path, LAYOUTS[name])
    check(path, *options)
    said = command("requests", str(path), *options).stderr
    assert "its times have their own zone\n" in said
    assert "read as" not in said


def test_a_log_in_which_some_lines_have_a_zone_says_so(tmp_path: Path) -> None:
    path = tmp_path / "kafka.log"
    path.write_text(f"[{own(FIRST)}+0000] {SAID[0]}\n[{own(MOMENTS[1])}] {SAID[1]}\n")
    said = command("requests", str(path), "--zone", "UTC").stderr
    assert "its times have their own zone, or read as UTC\n" in said


def test_a_collector_tells_the_zone_before_and_after_summer_time_begins(tmp_path: Path) -> None:
    moments = [datetime(2026, 3, 29, 1, 0, tzinfo=UTC) + n * timedelta(seconds=1) for n in (-1, 1)]
    path, berlin = tmp_path / "kafka.log", ZoneInfo("Europe/Berlin")
    both = zip(moments, SAID, strict=True)
    lines = [f"{runtime(at)} [{own(at.astimezone(berlin))}] {said}\n" for at, said in both]
    path.write_text("".join(lines))
    for (*_, since), at in zip(held(path), moments, strict=True):
        assert abs(since - at) < timedelta(milliseconds=3)


@pytest.mark.parametrize("zone", ["IST", "CST", "BST", "AST"])
def test_an_abbreviation_of_several_zones_is_not_guessed(zone: str, tmp_path: Path) -> None:
    path = written(tmp_path, lambda at, said: f"[{own(at)} {zone}] DEBUG {said}")
    words = "its time zone is ambiguous or skips that time: name the one"
    assert words in refused("requests", str(path))
    check(path, "--zone", "Africa/Abidjan")


@pytest.mark.parametrize("name", ["kubectl.log", "cri.log", "iso.log", "microsz.log"])
def test_the_time_of_a_runtime_is_not_taken_for_that_of_the_log(name: str) -> None:
    for zone in ([], ["--zone", "Europe/Berlin"]) if name[0] in "kc" else ([],):
        check(TEXTS / name, *zone)


def test_times_of_strimzis_log_are_of_the_zone_that_is_given() -> None:
    check(TEXTS / "strimzi.log", "--zone", "Europe/Berlin", within=timedelta(seconds=1))


def test_within_a_second_the_order_of_the_log_counts(tmp_path: Path) -> None:
    """What was acknowledged in the second in which it was acquired is no longer held."""
    lines = [
        *(fetch(n, f"m{n}", 0, [(n, n, 1)]) for n in range(20)),
        *(acknowledge(100 + n, f"m{n}", 1, [(n, n, [1])]) for n in range(19)),
    ]
    path = tmp_path / "kafka.log"
    path.write_text("\n".join(re.sub(r",\d{3}\]", "]", line) for line in lines))
    assert [one[:3] for one in held(path)] == [(19, 19, "m19")]
    ended = [row["ended_by"] for row in ask("requests", str(path), "--show", "holds")]
    assert ended == ["accept"] * 19 + [None]


def test_names_in_json_of_json_are_those_of_the_request(tmp_path: Path) -> None:
    name = 'a "quoted" \\ name: {\u00fc}'
    line = re.sub(r"^\[.*?\] DEBUG |,?\s\(kafka.*$", "", fetch(0, name, 0, [(0, 9, 1)]))
    path = tmp_path / "docker.log"
    path.write_text(docker(escaped(line, timeMillis=epoch(FIRST)), FIRST))
    assert [one[:3] for one in held(path)] == [(0, 9, name)]


#: Layouts without a date, or without any time: nothing tells when a request was completed.
UNREADABLE = {
    "ABSOLUTE": "10:00:00,123 DEBUG ",
    "relative": "12345 [main] DEBUG ",
    "none": "DEBUG ",
    "days and months": "11/12/26 10:00 DEBUG ",
    "American": "11/21/2026, 9:00:00.123 AM DEBUG ",
    "no year": "11-21 09:00:00,123 DEBUG ",
    "Java's Date": "Sat Nov 21 09:00:00 UTC 2026 DEBUG ",
    "French": "21 nov. 2026 09:00:00,123 DEBUG ",
    "Thai": "2569-11-21 09:00:00,123 DEBUG ",
    "Arabic": "\u0662\u0660\u0662\u0666-\u0661\u0661-\u0662\u0661 09:00:00,123 DEBUG ",
    "hostile": "\x1b[31mtoday\x1b[0m ",
}


@pytest.mark.parametrize(
    "show", few_of(["held", "holds", "findings", "acquisitions", "errors"], ["held"])
)
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_log_that_nobody_understands_is_an_error(name: str, show: str, tmp_path: Path) -> None:
    path = tmp_path / "kafka.log"
    path.write_text("".join(f"{UNREADABLE[name]}{said}\n" for said in SAID))
    said = refused("requests", str(path), "--show", show)
    for part in ("none of 2 requests", "%d{yyyy-MM-dd HH:mm:ss,SSS}", "Completed request:{"):
        assert part in said
    assert (said.count("\n"), said.count("\x1b")) == (1, 0)
    assert len(ask("requests", str(path), "--show", "rejects")) == 2
    refused("lag", "--capture", "chapters", "--requests", str(path))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[2026-11-23 00:00:00,000] INFO Kafka version: 4.4.0\n",
        FETCHES[0].replace('"requestApiKey":78', '"requestApiKey":0') + "\n",
    ],
)
def test_a_log_without_requests_of_share_groups_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(text)
    said = refused("requests", str(path))
    assert said.count("\n") == 1
    assert "is a request about share groups: give what kafka.request.logger" in said


@pytest.mark.parametrize("command_", [["requests"], ["lag", "--capture", "chapters", "--requests"]])
def test_an_answer_that_lacks_many_lines_says_so(command_: list[str], tmp_path: Path) -> None:
    path = tmp_path / "kafka.log"
    good = [fetch(n, "m", n, [(n, n, 1)]) for n in range(200)]

    def read(bad: int) -> tuple[int, set[bool | None], str]:
        path.write_text("\n".join([*good, *[f"10:00 DEBUG {SAID[0]}"] * bad]))
        done = command(*command_, str(path), "-o", "json")
        marks = {json.loads(line).get("complete") for line in done.stdout.splitlines()}
        return done.returncode, marks, done.stderr

    assert read(2)[:2] == (0, {None})
    status, marks, said = read(5)
    assert (status, marks) == (3, {False})
    assert "this answer is not complete: it lacks 5 of 205 requests in the log" in said
    shown = command(*command_, str(path))
    assert "INCOMPLETE: not known: 5 of 205 requests" in shown.stdout


_OF_GROUPS = "request about share groups"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("requests", "", "{} has no lines, so none of them is a request about share groups: "),
        ("requests", "x\n", "none of 1 line in {} is a request about share groups: "),
        ("requests", "x\ny\n", "none of 2 lines in {} is a request about share groups: "),
        ("requests", "1", f"1 line: 1 {_OF_GROUPS}, 0 that could not be read, 0 other"),
        ("requests", "2", f"2 lines: 1 {_OF_GROUPS}, 0 that could not be read, 1 other"),
        ("consumed", "x\n", "none of 1 line in {} has a delivery or an outcome: "),
        ("consumed", "", "0 lines: 0 with deliveries or outcomes, 0 that could not be read, 0 oth"),
    ],
)
def test_one_and_none_are_counted_in_words(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "file.log"
    request = fetch(1, "m", 1, [(1, 1, 1)]) + "\n"
    path.write_text({"1": request, "2": request + "x\n"}.get(text, text))
    assert said.format(path) in command(name, str(path)).stderr


def test_where_lines_are_missing_nothing_is_said_to_be_fine(tmp_path: Path) -> None:
    path = tmp_path / "kafka.log"
    path.write_text(f"{acknowledge(0, 'm', 0, [])}\nDEBUG {SAID[0]}\n")
    for show, said in (("held", "nobody holds"), ("findings", "found nothing wrong")):
        done = command("requests", str(path), "--show", show, code=3)
        assert said not in done.stderr


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [("utf-8-sig", True), ("utf-16", False), ("utf-16-le", True), ("utf-16-be", False)],
)
def test_logs_that_powershell_wrote_are_read(encoding: str, packed: bool, tmp_path: Path) -> None:
    plain = written(tmp_path, LAYOUTS["log4j"])
    octets = plain.read_text("utf-8").replace("\n", "\r\n").encode(encoding)
    path = tmp_path / ("w.log.gz" if packed else "w.log")
    path.write_bytes(gzip.compress(octets) if packed else octets)
    check(path)
