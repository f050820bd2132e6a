"""A request log beside a capture: who holds what, in lag, in causes, and on the terminal."""

from pathlib import Path

import pytest

import sharelag
from sharelag.metrics.holders import NEVER_DELIVERED, lines_of_places
from tests.support.chapters import CAPTURE
from tests.support.command import ask, refused
from tests.support.command import sharelag as command
from tests.support.request_lines import TOPIC, fetch, log_of, rows, state_call

#: Topic `orders` of the recorded demo, of which `billing` has not read what is beyond 680.
ORDERS = "sKsPW6TOQnKQg0plb_HCDA"
RUN = ("first_offset", "last_offset", "lock_state", "member_id")


@pytest.fixture(name="log")
def log_beside_the_demo(tmp_path: Path) -> Path:
    """A log that goes from a moment before the capture to one after it."""
    lines = [state_call("InitializeShareGroupState", 0, stateEpoch=1, startOffset=-1)]
    lines += [fetch(1_000, "m-7", 0, [(680, 699, 1)]), fetch(50_000, "m-8", 0)]
    return log_of(tmp_path, *[_of_demo(one) for one in lines]).log.path


def _of_demo(line: str) -> str:
    line = line.replace("2026-11-23 00:00:", "2026-11-21 11:45:").replace(TOPIC, ORDERS)
    return line.replace('"groupId":"g"', '"groupId":"billing"')


def test_what_is_unread_is_held_or_was_never_delivered(log: Path) -> None:
    bench = sharelag.open("chapters", engine="local", requests=log)
    evidence = bench.evidence("billing")
    found = rows(evidence.holders, *RUN)
    assert found == [(680, 699, "acquired", "m-7"), (700, 1099, NEVER_DELIVERED, None)]
    at = evidence.lag.column("partition").to_pylist().index(0)
    held, never = evidence.lag.column("notes").to_pylist()[at]
    assert held.startswith("680-699 acquired by m-7 since 2026-11-21 11:45:00 UTC")
    assert never == "400 never delivered"
    assert "acquired by m-7" in bench.lag("billing").to_text()
    notes = [row["notes"] for row in ask("lag", "--capture", str(CAPTURE), "--requests", str(log))]
    assert [one for one in notes if one and "acquired by m-7" in one[0]] == [[held, never]]


def test_a_cause_names_who_holds_offsets_in_each_of_its_share_partitions(log: Path) -> None:
    """Not only in the one with the most offsets, which is partition 3."""
    of_three = fetch(2_000, "m-8", 1, [(670, 674, 1)], partition=3)
    with log.open("a") as file:
        file.write(_of_demo(of_three) + "\n")
    bench = sharelag.open("chapters", engine="local", requests=log)
    (found,) = bench.explain("billing").table.column("evidence").to_pylist()
    (held,) = [one["value"] for one in found if one["name"] == "held_by"]
    first, second = held.split("; ")
    assert first.startswith("orders:0: 680-699 acquired by m-7 since")
    assert second.startswith("orders:3: 670-674 acquired by m-8 since")
    given = ("--capture", str(CAPTURE), "--group", "billing", "--requests", str(log))
    shown = " ".join(command("explain", *given).stdout.split())
    assert first in shown
    assert second in shown


@pytest.mark.parametrize(
    ("more", "said"), [(1, "1 more share partition"), (2, "2 more share partitions")]
)
def test_five_share_partitions_are_named_and_the_others_counted(more: int, said: str) -> None:
    place = {"group_id": "g", "topic": "orders", "topic_id": TOPIC}
    places = [place | {"partition": number} for number in range(5 + more)]
    found = {("g", TOPIC, number): f"held by m-{number}" for number in range(5 + more)}
    *named, last = lines_of_places(places, found)
    assert named == [f"orders:{number}: held by m-{number}" for number in range(5)]
    assert last == f"and {said}"


def test_a_log_that_ended_before_says_nothing(log: Path) -> None:
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    evidence = sharelag.open("chapters", engine="local", requests=log).evidence()
    assert evidence.holders.num_rows == 0
    assert "acquired" not in str(evidence.lag.column("notes").to_pylist())


def test_nothing_is_called_never_delivered_where_the_log_began_later(log: Path) -> None:
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    evidence = sharelag.open("chapters", engine="local", requests=log).evidence()
    assert rows(evidence.holders, *RUN) == [(680, 699, "acquired", "m-7")]


@pytest.mark.parametrize("name", ["lag", "explain"])
def test_commands_say_from_when_to_when_the_log_goes(log: Path, name: str) -> None:
    answer = command(name, "--capture", str(CAPTURE), "--requests", str(log), code=0)
    # With milliseconds, as the log has them: its first request came in 2 ms before it was done.
    goes = "the request log covers 2026-11-21T11:44:59.998Z to 2026-11-21T11:45:50.000Z"
    assert goes in answer.stderr
    assert ", its times read as UTC, since they name no zone" in answer.stderr
    assert "is not known" not in answer.stderr
    # Two hours east of UTC the same clock was earlier.
    east = ("--requests-zone", "Asia/Tokyo")
    answer = command(name, "--capture", str(CAPTURE), "--requests", str(log), *east)
    assert "who holds what at the moment above is not known" in answer.stderr


def test_windows_name_members_in_every_form(log: Path) -> None:
    given = ("windows", "--capture", str(CAPTURE), "--requests", str(log), "--group", "billing")
    held = "680-699 acquired by m-7 since 2026-11-21 11:45:00 UTC"
    notes = {(row["topic"], row["partition"]): row["notes"] for row in ask(*given)}
    mine = notes.pop(("orders", 0))
    assert mine == [held, "400 never delivered"]
    assert len(notes) == 9
    assert not any(notes.values())
    drawn = command(*given, "--picture")
    assert f"  {held}\n" in drawn.stdout
    assert "680-699" in drawn.stdout
    assert "Q acquired, by the request log" in drawn.stdout
    assert "the request log covers" in drawn.stderr
    assert held in command(*given).stdout
    bench = sharelag.open("chapters", engine="local", requests=log)
    shown = bench.windows("billing")
    assert [one for one in shown.table.column("notes").to_pylist() if one] == [mine]
    assert "acquired by m-7" in shown.to_text()
    assert "remove --since" in refused(*given, "--since", "10m", code=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lag", "--requests-zone", "UTC"], "--requests-zone needs --requests"),
        (["lag", "--brief", "--requests", "LOG"], "--requests needs --by partition"),
        (["requests", "LOG", "--show", "holds", "--as-of", "x"], "--as-of needs --show held."),
        (["requests", "LOG", "--capture", "x"], "--capture needs --show findings."),
    ],
)
def test_options_that_say_nothing_are_refused(log: Path, arguments: list[str], said: str) -> None:
    given = [str(log) if one == "LOG" else one for one in arguments]
    source = ["--capture", str(CAPTURE)] if given[0] == "lag" else []
    assert said in refused(*given, *source, code=2)


def test_requests_shows_tables_and_counts_findings(log: Path) -> None:
    answer = command("requests", str(log), "--show", "acquisitions", code=0)
    heading, row = answer.stdout.splitlines()
    assert heading.split()[:3] == ["TIMESTAMP", "GROUP", "TOPIC-ID"]
    assert "m-7" in row
    assert "3 lines: 3 requests about share groups, 0 that could not be read" in answer.stderr
    (held,) = ask("requests", str(log), "--as-of", "2026-11-21T11:45:02Z")
    assert held["last_offset"] == 699
    with log.open("a") as file:
        file.write(_of_demo(fetch(51_000, "m-8", 5)) + "\n")
    said = command("requests", str(log), "--group", "billing").stderr
    assert "session epoch gap: 1; --show findings shows them" in said
    findings = ("requests", str(log), "--show", "findings", "--group")
    assert "session epoch 5 follows 0" in command(*findings, "billing").stdout
    assert "follows" not in command(*findings, "x").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "nobody holds any offset at the end of the log; --show holds lists every lock"),
        (["--as-of", "2026-11-21T11:45:09Z"], "nobody holds any offset at 2026-11-21T11:45:09"),
        (["--group", "other"], "nobody holds any offset at the end of the log"),
        (["--show", "listings"], "the request log has no rows for --show listings"),
        (["--show", "findings"], "the checkers found nothing wrong"),
        (["--show", "findings", "--group", "billing"], "the checkers found nothing wrong"),
    ],
)
def test_a_table_without_rows_is_a_sentence(log: Path, options: list[str], said: str) -> None:
    answer = command("requests", str(log), *options)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert f"sharelag: {said}" in answer.stderr
    assert said not in command("requests", str(log), *options, "-o", "json").stderr


def test_findings_take_the_name_of_a_sample_as_other_commands_do(log: Path) -> None:
    given = ("requests", str(log), "--show", "findings", "--capture")
    by_name, by_path = (command(*given, one, code=0) for one in ("chapters", str(CAPTURE)))
    assert by_name.stdout == by_path.stdout
    assert "no capture at chapterz" in refused(*given, "chapterz")
