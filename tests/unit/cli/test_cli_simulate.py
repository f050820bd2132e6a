"""`simulate` answers people and machines, from a capture and by name."""

import csv
import io
import json
import re
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

from sharelag.errors import InputError
from sharelag.model import Window
from sharelag.whatif import (
    Burst,
    Member,
    PartitionStart,
    Producer,
    Scenario,
    Topic,
    named,
    names,
    what_clears,
)
from sharelag.whatif.horizon import size
from tests.support.chapters import CAPTURE
from tests.support.command import ask, sharelag
from tests.support.records import assert_fields

SLOW = str(CAPTURE.parent / "scenarios" / "slow")
run, rows = partial(sharelag, "simulate"), partial(ask, "simulate")


def test_a_row_for_each_assignor_and_number_of_members() -> None:
    given = "--assignor simple --assignor lag-aware-sticky --members 2,4 --seed 0 --seed 1"
    lines = rows("--capture", SLOW, *given.split(), "--duration", "30s")
    assert [(line["members"], line["assignor"], line["seed"]) for line in lines] == [
        (members, assignor, seed)
        for assignor in ("simple", "lag-aware-sticky")
        for members in (2, 4)
        for seed in (0, 1)
    ]
    assert {line["duration_ms"] for line in lines} == {30_000}
    assert lines[0]["arrived"] == lines[2]["arrived"] != lines[1]["arrived"]
    assert lines[2]["variant"] == "simple · 4 members"
    answer = run("--capture", SLOW, "--duration", "1s")
    assert "sharelag: assumed: " in answer.stderr
    assert "ms of work per record" in answer.stderr
    nobody = ["--capture", "not_started", "--duration", "1s", "--seeds", "2"]
    goal = "age_p95<1s"
    kinds = ("", "--timeline", "--compare --members 1,2", "--what-clears")
    searches = (f"--fewest-members {goal}", f"--tune --goal {goal}", "--against consumer-group")
    for kind in (*kinds, *searches):
        answer = run(*nobody, *kind.split(), "-o", "json", code=3)
        assert "not known: no completion rate" in answer.stderr.splitlines()[-1]
        told = [json.loads(line) for line in answer.stdout.splitlines()]
        assert bool(told) is (kind in kinds)
        assert not any(row.pop("complete") for row in told)
    assert "not known" not in run(*nobody, "--service", "1ms", code=0).stderr
    assert "complete" not in rows(*nobody, "--service", "1ms")[0]


@pytest.mark.parametrize("output", ["json", "yaml", "csv", "human"])
def test_every_format_says_the_same(output: str) -> None:
    answer = run("--scenario", "delivery-limit", "-o", output, code=0)
    if output == "human":
        heading, line = answer.stdout.splitlines()
        ends = {name: heading.index(name) + len(name) for name in ("ARCHIVED", "REDELIVERIES")}
        result: Any = {name: line[:end].split()[-1] for name, end in ends.items()}
        result["SCENARIO"] = line.split()[0]
        assert_fields(result, SCENARIO="delivery-limit", ARCHIVED="1", REDELIVERIES="4")
        return
    if output == "csv":
        (result,) = csv.DictReader(io.StringIO(answer.stdout))
    else:
        result = json.loads(answer.stdout) if output == "json" else yaml.safe_load(answer.stdout)[0]
    assert result["scenario"] == "delivery-limit"
    assert (int(result["archived"]), int(result["redeliveries"])) == (1, 4)


def test_the_timeline_has_a_row_a_step() -> None:
    lines = rows("--scenario", "delivery-limit", "--timeline", "--duration", "3s")
    assert ([line["time_ms"] for line in lines], lines[0]["lag"]) == (list(range(0, 3001, 100)), 1)
    assert lines[-1]["lag"] == 0
    assert (lines[0]["assignor"], lines[0]["members"], lines[0]["fetching"]) == ("simple", 1, 0)
    assert lines[-1]["fetching"] == 1


def test_the_scenarios_are_listed() -> None:
    listed = rows("--scenario", "list")
    assert {"scenario", "about"} == set(listed[0])
    assert "window-full" in {line["scenario"] for line in listed}


def test_what_is_wrong_is_said() -> None:
    assert "window-full" in run("--scenario", "nothing").stderr
    assert "choose one share group" in run("--capture", str(CAPTURE)).stderr
    assert run().returncode == 2


def test_a_group_is_chosen_among_many() -> None:
    of_one = ("--group", "billing", "--members", "3", "--duration", "5s")
    (line,) = rows("--capture", str(CAPTURE), *of_one)
    assert (line["scenario"], line["members"]) == ("billing", 3)


# ---- many runs -----------------------------------------------------------------------------------
IDLE = ("--scenario", "idle-members", "--duration", "8s")


def test_seeds_are_named_or_counted() -> None:
    assert [line["seed"] for line in rows("--scenario", "gaps", "--seeds", "3")] == [0, 1, 2]
    named = rows("--scenario", "gaps", "--seed", "7", "--seed", "5")
    assert [line["seed"] for line in named] == [7, 5]
    assert [line["seed"] for line in rows("--scenario", "gaps")] == [0]


def test_settings_are_tried_in_every_combination() -> None:
    limits, lock = "share.delivery.count.limit=2,3", "share.record.lock.duration.ms=1000"
    values = ("--setting", limits, "--setting", lock)
    lines = rows("--scenario", "delivery-limit", *values)
    assert [(line["variant"], line["redeliveries"]) for line in lines] == [
        (f"share.delivery.count.limit={limit}, share.record.lock.duration.ms=1000", limit - 1)
        for limit in (2, 3)
    ]
    heading, *result = run("--scenario", "delivery-limit", *values).stdout.splitlines()
    assert heading.startswith("VARIANT")
    assert result[0].startswith("share.delivery.count.limit=2")


def test_a_comparison_for_machines() -> None:
    given = (*IDLE, "--members", "2,6", "--seeds", "7", "--compare")
    lines = rows(*given)
    some = {"drain_ms", "lag_end", "age_p95_ms", "fairness", "member_hours"}
    assert {line["measure"] for line in lines} > some
    two, six = (line for line in lines if line["measure"] == "lag_end")
    found = (two["variant"], six["variant"], two["baseline"], six["baseline"])
    assert found == ("2 members", "6 members", "2 members", "2 members")
    assert (two["difference"], two["better"], two["winner"]) == (None, None, False)
    assert_fields(six, better=True, winner=True, n=7, unknown=0, confidence=0.95)
    assert six["difference"] == six["mean"] - two["mean"] < 0
    assert six["difference_low"] <= six["difference"] <= six["difference_high"] < 0
    assert six["ratio_low"] <= six["ratio"] <= six["ratio_high"] < 1
    drain = next(line for line in lines if line["measure"] == "drain_ms")
    assert (drain["n"], drain["unknown"], drain["mean"]) == (0, 7, None)

    measured = ["--measure", "lag_end", "--measure", "moves", "--confidence", "0.9"]
    other = rows(*given, "--baseline", "6 members", *measured)
    assert [line["measure"] for line in other] == ["lag_end"] * 2 + ["moves"] * 2
    assert (other[0]["better"], other[0]["difference"]) == (False, -six["difference"])
    assert other[0]["confidence"] == 0.9
    short = (*IDLE[:3], "1s", *given[4:6], "--seeds", "2", "--compare")
    wanted = [line["variant"] for line in rows(*short)]
    for output, read in (
        ("yaml", yaml.safe_load),
        ("csv", lambda text: list(csv.DictReader(io.StringIO(text)))),
    ):
        answer = run(*short, "-o", output, code=0)
        assert [row["variant"] for row in read(answer.stdout)] == wanted


def test_a_comparison_for_people() -> None:
    given = (*IDLE, "--members", "2,6", "--seeds", "7", "--compare")
    answer = run(*given, "--assignor", "simple", "--optimal", code=0)
    heading, *lines = answer.stdout.splitlines()
    result = {(line.split()[0], " ".join(line.split()[1:5])): line for line in lines}
    assert heading.split()[:4] == ["MEASURE", "VARIANT", "MEAN", "FROM"]
    assert result["drain_ms", "simple · 2 members"].split()[5:9] == ["unknown", "in", "7", "of"]
    assert result["drain_ms", "simple · 2 members"].endswith("baseline")
    assert result["latency_p95_ms", "simple · 6 members"].split()[6] == "s"
    assert ("age_p95_over_optimal", "simple · 2 members") in result
    assert (
        "2 variants, 7 seeds, compared seed by seed with simple · 2 members; "
        "95 % confidence intervals" in answer.stderr
    )
    decides = run(*given)
    heading, two, six = decides.stdout.splitlines()
    assert heading.split()[:4] == ["VARIANT", "DRAINS-IN", "DRAINED", "P95-AGE"]
    assert re.fullmatch(r"2 members +not in [\dms ]+ 0 of 7 .* - +[\d,]+ .*baseline", two)
    assert re.fullmatch(r"6 members +not in [\dms ]+ 0 of 7 .* the same +[\d,]+ .* -", six)
    chosen = run(*given, "--measure", "lag_end")
    assert [line.split()[-1] for line in chosen.stdout.splitlines()[1:]] == ["baseline", "winner"]
    assert "better, winner" in chosen.stdout


def test_what_clears_the_lag_is_searched() -> None:
    given = ["--scenario", "uneven", "--what-clears", "--members", "12", "--seeds", "2"]
    given += ["--duration", "20s", "--assignor", "all-to-all"]
    answer = run(*given, code=0)
    heading, simple, other = answer.stdout.splitlines()
    assert heading.split() == ["ASSIGNOR", "8-MEMBERS", "12-MEMBERS"]
    assert re.match(r"simple +not in 20 s, age .+ h", simple)
    assert other.startswith("all-to-all")
    lines = rows(*given)
    assert [(line["assignor"], line["members"]) for line in lines] == [
        ("simple", 8), ("all-to-all", 8), ("simple", 12), ("all-to-all", 12)
    ]  # fmt: skip
    assert {line["runs"] for line in lines} == {2}
    assert "20 s simulated" in answer.stderr
    # Without seeds it takes as many as in Python: for its four cells, not for those of any search.
    short = ["--scenario", "slow-producer", "--what-clears", "--members", "2", "--duration", "2s"]
    asked = rows(*short, "--assignor", "all-to-all")
    told = what_clears(
        named("slow-producer"), assignors=["all-to-all"], members=[2], duration_ms=2000
    ).cells
    assert [line["runs"] for line in asked] == told["runs"].to_pylist() == [7] * 4
    assert "as it is (simple, 8 members)" in answer.stderr.splitlines()[-1]


def test_every_assignor_says_what_it_does() -> None:
    lines = rows("--assignor", "list")
    assert {line["assignor"] for line in lines} >= {"simple", "lag-aware-sticky", "optimal"}
    assert all(len(line["about"]) > 20 for line in lines)
    refused = run("--assignor", "list", "--compare", code=2)
    assert "--assignor list runs nothing: remove --compare" in refused.stderr


def test_the_default_number_of_seeds_is_enough_for_any_comparison() -> None:
    """Eight seeds tell seven variants from the first even where all runs differ by the same."""
    given = ("--duration", "2s", "--members", "2,3,4,5,6,7,8,9", "--compare")
    answer = run("--scenario", "idle-members", *given)
    assert "8 variants, 9 seeds" in answer.stderr
    assert "too few" not in answer.stderr


def test_the_fewest_members_are_searched() -> None:
    given = ("--scenario", "idle-members", "--duration", "20s", "--seeds", "5", "--between", "1,9")
    lines = rows(
        *given, "--assignor", "simple", "--assignor", "sticky", "--fewest-members", "lag_end<18000"
    )
    assert {line["variant"] for line in lines} == {"simple", "sticky"}
    mine = [line for line in lines if line["variant"] == "simple"]
    (answer,) = [line for line in mine if line["answer"]]
    assert answer["met"]
    assert answer["goal"] == "lag_end <= 18000"
    others = (["--compare"], ["--against", "consumer-group"])
    found = [*mine, *(rows(*given[:4], "--seeds", "2", *other)[0] for other in others)]
    assert {line["duration_ms"] for line in found} == {20_000}
    assert all(line["met"] is (line["members"] >= answer["members"]) for line in mine)
    assert answer["members"] - 1 in [line["members"] for line in mine]
    result = run(*given, "--fewest-members", "lag_end<18000")
    assert [line.split()[-1] for line in result.stdout.splitlines()].count("fewest") == 1
    words = f"as it is: {answer['members']} members keep lag_end <= 18000, with 95 % confidence"
    assert f"{words}, over 20 s" in result.stderr
    of_time = run(*given[:-4], "--seeds", "2", "--between", "1,1", "--fewest-members", "age_p95<1m")
    assert re.search(r"as it is +1 +[\d.]+ s", of_time.stdout)  # a time has its unit


def test_seeds_too_few_for_a_verdict_are_said() -> None:
    """Nothing is left to chance in it: all seeds differ by the same."""
    words = "--scenario delivery-limit --setting share.delivery.count.limit=2,5 --compare"
    given = words.split()
    few, enough = (run(*given, "--measure", "redeliveries", "--seeds", n) for n in ("3", "6"))
    said = few.stderr
    assert "sharelag: 3 seeds are too few for a verdict where all differences are equal" in said
    assert "give 6 or more" in few.stderr
    assert "worse" not in few.stdout
    assert "too few" not in enough.stderr
    assert enough.stdout.splitlines()[-1].endswith("worse")
    # Of more variants each takes more.
    three = run(
        *given[:2], "--setting", "share.delivery.count.limit=2,3,5", "--compare", "--seeds", "3"
    )
    assert "give 7 or more" in three.stderr


def test_seeds_too_few_for_a_move_are_said() -> None:
    given = ("--scenario", "idle-members", "--duration", "60s", "--against", "consumer-group")
    few, enough = (run(*given, "--seeds", count) for count in ("2", "6"))
    said = few.stderr
    assert "sharelag: 2 seeds are too few for a verdict where all differences are equal" in said
    assert not [line for line in few.stdout.splitlines() if line.endswith("share group")]
    assert "too few" not in enough.stderr
    assert [line for line in enough.stdout.splitlines() if line.endswith("share group")]


def test_people_read_times_with_their_units() -> None:
    heading, line = run("--scenario", "idle-members").stdout.splitlines()
    assert "-MS" not in heading
    (row,) = rows("--scenario", "idle-members")
    drain, age = (f"{row[name] / 1000:.3g} s" for name in ("drain_ms", "age_p95_ms"))
    assert row["drain_ms"] > 1000
    assert drain in line
    assert age in line
    heading, _, second, *_ = run("--scenario", "delivery-limit", "--timeline").stdout.splitlines()
    assert "-MS" not in heading
    assert heading.split()[4] == "TIME"
    assert "0.1 s" in second
    assert len(heading.split()) == len(rows("--scenario", "delivery-limit", "--timeline")[0])


def test_a_scenario_is_kept_edited_and_run(tmp_path: Path) -> None:
    shown = run("--scenario", "delivery-limit", "--show-scenario", "--duration", "2s", code=0)
    result = json.loads(shown.stdout)
    result["name"], result["settings"]["limits"]["delivery_count_limit"] = "mine", 3
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(result))
    (line,) = rows("--scenario", str(file))
    assert (line["scenario"], line["redeliveries"], line["duration_ms"]) == ("mine", 2, 2000)
    result["asignor"] = "sticky"
    file.write_text(json.dumps(result))
    assert "asignor: unknown key" in run("--scenario", str(file)).stderr
    assert "cannot read the scenario" in run("--scenario", str(tmp_path / "none.json")).stderr


def test_what_is_tried_of_a_scenario_can_be_kept(tmp_path: Path) -> None:
    tried = ("--members", "2", "--assignor", "sticky", "--setting", "share.delivery.count.limit=7")
    given = ("--scenario", "delivery-limit", "--show-scenario")
    shown = json.loads(run(*given, *tried, "--autoscale", "fixed:3").stdout)
    assert shown["settings"]["limits"]["delivery_count_limit"] == 7
    assert (shown["assignor"], len(shown["members"])) == ("sticky", 2)
    assert shown["autoscaler"]["replicas"] == 3
    several = run(*given, "--members", "2,3", code=2)
    assert "--show-scenario prints one scenario, not 2: 2 members, 3 members" in several.stderr


def test_a_capture_becomes_a_file(tmp_path: Path) -> None:
    shown = run("--capture", SLOW, "--show-scenario", "--duration", "5s")
    file = tmp_path / "slow.json"
    file.write_text(shown.stdout)
    assert rows("--scenario", str(file)) == rows("--capture", SLOW, "--duration", "5s")


def test_who_changes_the_number_loses_accidents() -> None:
    result = run("--scenario", "crash-redelivery", "--members", "3")
    assert "faults of single members are left out" in result.stderr
    assert "accidents" not in run("--scenario", "crash-redelivery").stderr


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (("--compare", "--timeline"), "--compare and --timeline cannot be combined"),
        (("--sweep", "x", "--timeline"), "--timeline and --sweep cannot be combined"),
        (("--fewest-members", "lag_end<1", "--members", "2"), "remove --members"),
        (("--seed", "1", "--seeds", "2"), "choose --seed or --seeds"),
        (("--seed", "1", "--seed", "1"), "--seed has a duplicate"),
        (("--baseline", "x"), "--baseline needs --compare or --suite: add it"),
        (("--what-clears", "--compare"), "--compare and --what-clears cannot be combined"),
        (("--what-clears", "--autoscale", "fixed:3"), "remove --autoscale"),
        (("--measure", "moves"), "--measure needs --compare: add it"),
        (("--optimal",), "--optimal needs --compare: add it"),
        (("--optimal", "--against", "consumer-group"), "--optimal needs --compare"),
        (("--optimal", "--fewest-members", "lag_end<1"), "--optimal needs --compare"),
        (("--between", "1,4"), "--between needs --fewest-members"),
        (("--between", "1,64"), "--between needs --fewest-members"),  # the default, but given
        (("--confidence", "0.9"), "--confidence needs --compare or --against or --fewest-members"),
        (("--confidence", "0.9", "--timeline"), "--confidence needs --compare or"),
        (("--tune",), "--tune needs a goal"),
        (("--goal", "lag_end<1"), "--goal needs --tune: add it"),
        (("--front",), "--front needs --tune: add it"),
        (("--tune", "--goal", "lag_end<1", "--members", "2"), "remove --members"),
        (("--tune", "--goal", "lag_end<1", "--seeds", "1"), "--tune needs at least two seeds"),
        (("--tune", "--goal", "lag_end<1", "--compare"), "--compare and --tune cannot be combined"),
        (("--tune", "--goal", "lag_end<1", "--setting", "renew"), "NAME=LOW..HIGH once"),
        (("--compare", "--measure", "drain_over_optimal"), "needs --optimal: add it"),
        (("--fewest-members", "lag_end<1", "--seeds", "1"), "needs at least two seeds"),
        (("--fewest-members", "lag_end<1", "--seed", "7"), "needs at least two seeds"),
        (("--show-scenario", "--seeds", "2"), "remove --seed and --seeds"),
        (
            ("--capture", SLOW),
            "--capture is for an input and cannot be used with --scenario: remove one",
        ),
        (
            ("--group", "x", "--topic", "t"),
            "--group and --topic are for an input and cannot be used",
        ),
        (("--all-groups",), "--all-groups is for an input"),
        (("--as-of", "2026-11-21T03:10:00Z"), "--as-of is for an input"),
        (("--service", "3ms"), "--service is for an input"),
        (("--service-ms", "3"), "--service-ms is for an input"),
        (("--over", "60s"), "--over is for an input"),
        (("--engine", "local"), "--engine is for an input"),
        (("--setting", "share.delivery.count.limit"), "--setting takes NAME=VALUE"),
        (("--between", "5,1"), "is not a range of member counts"),
        *((("--members", one), "is not a list of member counts") for one in ("5,5", "few", "-1")),
    ],
)
def test_wrong_usage_is_said(given: tuple[str, ...], result: str) -> None:
    answer = run("--scenario", "gaps", *given, code=2)
    assert result in answer.stderr


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (("--assignor", "nothing"), "unknown assignor 'nothing': choose one of simple, "),
        (("--setting", "share.lock=1"), "unknown setting 'share.lock'"),
        (
            ("--setting", "share.delivery.count.limit=many"),
            "share.delivery.count.limit cannot be 'many'",
        ),
        (("--autoscale", "keda:threshold=0"), "threshold is '0'"),
        (
            ("--compare", "--members", "2,4", "--baseline", "8 members"),
            (
                "unknown variant '8 members' to compare to: "
                "choose one of 'as it is', '2 members', '4 members'"
            ),
        ),
        (("--compare", "--measure", "nothing"), "unknown measure 'nothing'"),
        (("--fewest-members", "soon"), "invalid goal 'soon'"),
        (("--tune", "--goal", "soon"), "invalid goal 'soon'"),
    ],
)
def test_what_is_not_there_is_said_before_anything_is_read(
    given: tuple[str, ...], result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "sharelag.cli.simulate_options._from_input"
    monkeypatch.setattr(place, lambda _: pytest.fail("the input was read for nothing"))
    answer = run("--capture", SLOW, *given, code=1)
    assert result in answer.stderr


def test_the_list_takes_nothing_else() -> None:
    answer = run("--scenario", "list", "--members", "3", "--compare", code=2)
    assert "--scenario list runs nothing: remove --members and --compare" in answer.stderr


# ---- what does not end ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "result"),
    [
        (("--duration", "1000000000s"), ("1 run would have about", "give a shorter --duration")),
        (
            ("--duration", "100000s", "--seeds", "500"),
            ("500 runs would have about", "--sweep DIR", "variants or --seeds"),
        ),
        (
            ("--duration", "100000s", "--compare", "--seeds", "150", "--optimal"),
            ("300 runs would have about", "--sweep DIR"),
        ),
        (
            ("--duration", "100000s", "--fewest-members", "lag_end<9", "--seeds", "90"),
            ("630 runs would have about",),
        ),
        (
            ("--duration", "1000000000s", "--sweep", "x"),
            ("1 run would have about", "larger record batches"),
        ),
    ],
)
def test_what_would_not_end_is_refused(
    given: tuple[str, ...], result: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharelag.cli.simulate._runs", lambda *_: pytest.fail("it was begun"))
    answer = run("--scenario", "slow-producer", *given, code=1)
    assert all(one in answer.stderr for one in result), answer.stderr


def test_what_is_too_much_for_a_process_is_not_for_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(*_: Any) -> Any:
        raise InputError("it was begun")

    monkeypatch.setattr("sharelag.cli.simulate._runs", begin)
    given = ("--scenario", "slow-producer", "--duration", "100000s", "--seeds", "500")
    assert "it was begun" in run(*given, "--sweep", "x").stderr
    assert "it was begun" in run(*given[:4]).stderr
    assert run(*given, "--show-scenario", "--duration", "1000000000s").returncode == 2
    # Whoever wants to edit it sees it.
    assert run(*given[:2], "--show-scenario", "--duration", "1000000000s").returncode == 0


def test_the_work_of_a_run_is_foreseen() -> None:
    """Batches, a tenth of the records, empty polls, and timeline rows."""
    members = (Member(count=2), Member("gone", leave_ms=10_000, fetch_max_wait_ms=1000))
    log = PartitionStart(130, 20, Window(0, 0, 0, 30, 0, 0, 0), 10)
    burst = Producer(
        "t", 10, batch_records=5, begin_ms=10_000, end_ms=30_000, bursts=(Burst(0, 20_000, 3),)
    )
    half = Producer("t", 1, day=(1.0, 0.0) * 12)
    scenario = Scenario(
        (Topic("t", 1, starts=(log,)),), members, (burst, half), duration_ms=20_000, step_ms=100
    )
    wanted = (10 + 60 + 20) + (100 + 300 + 20) / 10 + (40 + 40 + 10) + 200
    assert size(scenario) == pytest.approx(wanted)
    named_ones = {name: size(named(name)) for name in names()}
    assert max(named_ones, key=named_ones.__getitem__) in ("burst", "uneven")
    assert 20 * max(named_ones.values()) < 20_000_000


def test_a_bar_is_for_terminals_and_a_pipe_hears_of_long_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sharelag.cli import output
    from sharelag.cli.output import simulation_bar

    screen, heard = io.StringIO(), Event()
    monkeypatch.setattr("sys.stderr", screen)

    def hear(text: str, **_: object) -> None:
        screen.write(text)
        heard.set()

    monkeypatch.setattr("click.echo", hear)
    with simulation_bar() as progress:
        progress(0, 7)
    assert screen.getvalue() == ""
    monkeypatch.setattr(output, "_UNHEARD", 0.01)
    with simulation_bar() as progress:
        progress(3, 7)
        assert heard.wait(60)
    assert "sharelag: simulating for 0 s: 3 of 7 runs" in screen.getvalue()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setenv("TERM", "xterm")
    with simulation_bar() as progress:
        progress(3, 7)
    assert "3/7" in screen.getvalue()


def test_the_former_name_of_service_says_what_to_write() -> None:
    given = ("--capture", SLOW, "--service-ms", "3", "--duration", "1s")
    answer = run(*given, "--engine", "local", "--show-scenario", code=0)
    assert "sharelag: --service-ms is deprecated: use --service, such as" in answer.stderr


@pytest.mark.parametrize("options", ["", "--group billing", "--members-wanted 10m"])
def test_a_moment_before_any_state_is_one_error(options: str) -> None:
    given = ["--capture", "chapters", "--as-of", "2020-01-01T00:00:00Z", *options.split()]
    done = sharelag("simulate", *given, code=1)
    assert len(done.stderr.splitlines()) == 1
