"""Python that flows: what is near at hand works; a mistake is answered by one sentence."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import sharelag
from sharelag.errors import InputError, ShareLagError, unknown_group, unknown_topic
from sharelag.inputs import CaptureInput
from sharelag.monitoring.checks.judge import check
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.whatif.from_cluster import scenario_from
from sharelag.workbench import Workbench
from tests.support.chapters import CAPTURE
from tests.support.command import refused
from tests.support.readings import open_once


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return open_once("chapters")


def test_a_result_is_at_hand_like_a_table_of_pandas(bench: Workbench) -> None:
    lag = bench.lag()
    assert list(lag) == lag.table.schema.names == list(lag.df)
    assert "lag" in lag
    assert "lags" not in lag
    some = lag[["group_id", "lag"]]
    assert some.equals(lag.df[["group_id", "lag"]])
    assert lag["group_id"].equals(lag.df["group_id"])
    assert lag[["lag"]].shape == (len(lag), 1)


def test_a_strip_without_a_group_is_of_the_one_with_the_most_lag(bench: Workbench) -> None:
    sums = bench.lag(by="group").df
    most = sums.set_index("group_id")["lag"].idxmax()
    assert bench.dashboard().group == most
    strip, wanted = bench.strip(), bench.strip(most)
    assert strip.rows.equals(wanted.rows)
    assert strip.limit == wanted.limit
    assert not strip.rows.equals(bench.strip(group="fraud-check").rows)


def test_what_is_public_is_listed() -> None:
    assert {"open", "whatif", "Workbench", "lag"} <= set(dir(sharelag))
    for module in (sharelag, sharelag.whatif, sharelag.workbench):
        assert module.__all__ == sorted(module.__all__)
        assert set(module.__all__) <= set(dir(module))
        assert all(getattr(module, name) is not None for name in dir(module))
        assert not [name for name in dir(module) if name.startswith("_") and name[:2] != "__"]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda b: b.lags, "a Workbench has no attribute 'lags'; did you mean 'lag'?"),
        (
            lambda b: b.lag().to_panda(),
            "a Result has no attribute 'to_panda'; did you mean 'to_pandas'?",
        ),
        (
            lambda _: sharelag.opne,  # type: ignore[attr-defined]
            "module 'sharelag' has no attribute 'opne'; did you mean 'open'?",
        ),
        (
            lambda _: sharelag.whatif.simulat,  # type: ignore[attr-defined]
            "module 'sharelag.whatif' has no attribute 'simulat'; did you mean 'simulate'?",
        ),
        (
            lambda _: sharelag.workbench.Workbnch,  # type: ignore[attr-defined]
            "module 'sharelag.workbench' has no attribute 'Workbnch'; did you mean 'Workbench'?",
        ),
        (
            lambda b: b.lag().end_offset,
            "a Result has no attribute 'end_offset': it is a column, result['end_offset']",
        ),
        (lambda b: b.zzz, "a Workbench has no attribute 'zzz'"),
        (lambda b: b.refused, "a Workbench has no attribute 'refused'"),
        (
            lambda b: b.to_spark,
            "a Workbench has no attribute 'to_spark': answers do, as bench.lag().to_spark",
        ),
    ],
)
def test_a_misspelled_name_is_told(ask: Callable[[Any], Any], said: str, bench: Workbench) -> None:
    with pytest.raises(AttributeError) as found:
        ask(bench)
    assert str(found.value) == said


def chosen(**given: Any) -> Workbench:
    return sharelag.open("chapters", engine="local", **given)


NAIVE = datetime(2026, 1, 1)
#: Those that types forbid, too: few who write in notebooks check them.
MISTAKES: list[tuple[Callable[[Workbench], Any], str]] = [
    (lambda b: b.lag(3), "share groups have names: give a string, not 3"),  # type: ignore[arg-type]
    (
        lambda b: b.peek("billing", "orders", 0, 5.0),  # type: ignore[arg-type]
        "orders:0:5.0 is not a record",
    ),
    (lambda b: b.lag(by="member"), "cannot sum lag by 'member': choose one of group, topic"),
    (
        lambda b: b.lag(by=[]),  # type: ignore[arg-type]
        "cannot sum lag by []: choose one of group, topic",
    ),
    (
        lambda b: b.imbalance(by=[]),  # type: ignore[arg-type]
        "cannot show an imbalance by []: choose one of",
    ),
    (
        lambda b: b.ask("imbalance_trend", every=timedelta(seconds=1), by="broker"),
        "cannot show an imbalance over time by broker: past members and leaders are not recorded",
    ),
    (lambda b: b.forecasts(None), "is a folder: give its path, not None"),  # type: ignore[arg-type]
    (lambda b: b.events(since="366000d"), "invalid time '366000d': give one such as"),
    (lambda b: b.lag()["lags"], "did you mean 'lag'?"),
    (lambda b: b.lag()[["lag", "ages"]], "unknown column 'ages' of "),
    (lambda b: b.lag()[0], "unknown column 0 of "),  # type: ignore[call-overload]
    (lambda b: b.lag().plot("bars"), "there is no chart 'bars' of "),
    (lambda b: b.lag().figure(theme="blue"), "unknown theme 'blue': choose one of light, dark"),
    (lambda b: b.strip(group="biling"), "did you mean 'billing'?"),
    (
        lambda b: b.strip("billing", "order"),
        "has no state of topic 'order': its topics are orders, payments; did you mean 'orders'?",
    ),
    (lambda b: b.moments("billing", most=0), "cannot show 0 moments: give a whole number above 0"),
    (lambda b: b.moments("billing", most="x"), "cannot show 'x' moments"),  # type: ignore[arg-type]
    (lambda b: b.plan_delete("billing", members=3), "are only for a simulation: add simulate=True"),
    (lambda b: b.history(since="whenever"), "invalid time 'whenever': give one such as"),
    (
        lambda b: b.history(since=5),  # type: ignore[arg-type]
        "cannot begin at 5: give a datetime, or a text",
    ),
    (lambda b: b.history(since=NAIVE), "has no time zone: add tzinfo=UTC"),
    (
        lambda b: b.at(7),  # type: ignore[arg-type]
        "7 is neither a time nor offsets: give a datetime",
    ),
    (
        lambda b: b.diff(7),  # type: ignore[arg-type]
        "7 is neither a time nor offsets: give a datetime",
    ),
    (lambda b: b.diff(NAIVE), "has no time zone: add tzinfo=UTC"),
    (
        lambda b: b.at({"0": 10}),  # type: ignore[dict-item]
        "{'0': 10} is neither a time nor offsets: give a datetime",
    ),
    (
        lambda b: b.at({0: 1.5}),  # type: ignore[dict-item]
        "{0: 1.5} is neither a time nor offsets: give a datetime",
    ),
    (lambda b: b.at({0: 1 << 70}), "has a partition or an offset that is out of range"),
    (
        lambda b: b.settings_drift("last-week"),  # type: ignore[arg-type]
        "cannot compare with 'last-week': open the earlier capture first",
    ),
    (lambda b: b.at("nope"), "invalid time 'nope': give one such as"),
    (
        lambda b: b.only(["billing"]),  # type: ignore[arg-type]
        "give groups one after the other, as strings, not as (['billing'],)",
    ),
    (lambda _: chosen(groups=3), "give groups by their names, as strings, not as 3"),
    (lambda _: chosen(topics=[1]), "give topics by their names, as strings, not as [1]"),
    (lambda _: chosen(topics={"orders": 1}), "give lists of partitions, as {'orders': [0]}, not"),
    (lambda _: chosen(topics={1: [0]}), "give topics by their names, as strings"),
    (lambda _: chosen(over="soon"), "invalid duration 'soon': use a number with a unit"),
    (lambda _: sharelag.open("chapter", engine="local"), "did you mean 'chapters'?"),
]


@pytest.mark.parametrize(("ask", "said"), MISTAKES, ids=[said[:40] for _, said in MISTAKES])
def test_mistakes_have_words(ask: Callable[[Workbench], Any], said: str, bench: Workbench) -> None:
    with pytest.raises(ShareLagError) as found:
        ask(bench)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_names_may_be_given_by_anything_that_has_them() -> None:
    names = (name for name in ["billing", "shipping"])
    assert chosen(groups=names).groups == ("billing", "shipping")
    of_one = chosen(groups="billing", topics="orders").lag()
    assert set(of_one["topic"]) == {"orders"}


def test_what_ifs_take_one_or_several_and_say_what_they_take() -> None:
    from sharelag.whatif import check_assignor, compare, fewest_members, named, simulate, variants

    scenario = named("uneven")
    one = variants(scenario, assignors="sticky", members=4)
    assert one == variants(scenario, assignors=["sticky"], members=[4])
    # Type checkers refuse what is ignored here: people without one make these mistakes.
    mistakes: list[tuple[Callable[[], Any], str]] = [
        (lambda: compare(scenario), "variants are scenarios by name: give {'as it is': scenario"),  # type: ignore[arg-type]
        (lambda: compare(one, seeds=3), "seeds are several numbers: give range(3) or [3]"),  # type: ignore[arg-type]
        (lambda: compare(one, seeds=[0.5]), "0.5 cannot be a seed: give a whole number"),  # type: ignore[list-item]
        (lambda: simulate("uneven"), "cannot simulate 'uneven': give a Scenario, such as"),  # type: ignore[arg-type]
        (lambda: simulate(scenario, seed=-1), "-1 cannot be a seed: give a whole number from 0 on"),
        (lambda: variants(scenario, members=2.5), "2.5 cannot be a number of members"),  # type: ignore[arg-type]
        (lambda: variants(scenario, settings={"renew": True}), "settings are given by label"),  # type: ignore[dict-item]
        (lambda: variants(scenario, settings=[{}]), "settings are given by label"),
        (partial(fewest_members, scenario, goal="age<30s"), "unknown measure 'age': choose one of"),
        (lambda: check_assignor("simple", [], {"t": 3}), "'t' is 3: give a mapping with parti"),  # type: ignore[dict-item]
    ]
    for ask, said in mistakes:
        with pytest.raises(InputError) as found:
            ask()
        assert said in str(found.value)


def test_a_cell_that_fails_shows_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    run = shell.run_cell("import sharelag; sharelag.open('chapters', engine='local').lag('nobody')")
    said = "".join(capsys.readouterr())
    assert said.strip() == f"InputError: {run.error_in_exec}"
    assert "there is no state of share group 'nobody'" in said
    assert shell.user_ns["sharelag"] is not None
    shell.run_cell("1 / 0")
    assert "Traceback" in "".join(capsys.readouterr())  # of what is no error of ours, all is shown


def test_an_unknown_group_is_worded_once() -> None:
    assert unknown_group("biling", ["billing", "analytics"], "in a capture") == (
        "there is no state of share group 'biling' in a capture: its groups are analytics, "
        "billing; did you mean 'billing'?"
    )
    assert unknown_group("x", [f"group-{n:02}" for n in range(12)]).endswith(
        "group-08, group-09 and 2 more"
    )
    assert unknown_group("x", []).endswith(
        ": check the spelling, and that the group has consumed (kafka-share-groups.sh --list)"
    )


def test_every_way_to_ask_for_an_unknown_group_says_what_was_meant() -> None:
    meant = "; did you mean 'billing'?"
    for command in ("lag", "windows", "explain", "imbalance", "simulate"):
        assert meant in refused(command, "--capture", str(CAPTURE), "--group", "biling")
    bench = sharelag.open(str(CAPTURE), engine="local")
    chosen_one = chosen(groups="biling")
    questions = ("lag", "windows", "explain", "progress", "brokers", "imbalance")
    for ask in (
        *(getattr(chosen_one, name) for name in questions),
        partial(bench.lag, "biling"),
        partial(bench.progress, "biling"),
        partial(bench.moments, "biling"),
        lambda: bench.scenario("biling"),
        lambda: scenario_from(bench.evidence(), "biling"),
    ):
        with pytest.raises(InputError, match=meant.replace("?", r"\?")):
            ask()
    rules = parse_rules("version: 1\nrules: [{name: a, measure: lag, groups: [biling], warn: 1}]")
    (row,) = check(CaptureInput(CAPTURE), rules, "local").table.to_pylist()
    assert meant in row["summary"]


def test_a_group_of_another_moment_or_topic_is_not_called_misspelt() -> None:
    early, meant = "2020-01-01T00:00:00Z", "; did you mean 'billing'?"
    then = "share group 'billing' had no state at that moment: choose a later one"
    elsewhere = "there is no state of share group 'billing' in nothing:0: check the spelling"
    bench = sharelag.open(str(CAPTURE), engine="local")
    past = bench.at(early)
    some = sharelag.open(str(CAPTURE), topics=["nothing:0"], engine="local")
    for answer in (past.lag(), past.history(), past.timeline(), past.snapshots(), past.reconcile()):
        assert answer.as_of == datetime.fromisoformat(early), answer.title
    for ask, said in (
        (partial(past.lag, "billing"), then),
        (past.only("billing").explain, then),
        (partial(past.lag, "biling"), meant),
        (partial(some.lag, "billing"), elsewhere),
        (partial(some.lag, "biling"), meant),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            ask()
    given = ("lag", "--capture", str(CAPTURE))
    assert then in refused(*given, "--as-of", early, "--group", "billing", code=0)
    assert meant in refused(*given, "--as-of", early, "--group", "biling", code=0)
    assert elsewhere in refused(*given, "--topic", "nothing:0", "--group", "billing")
    rules = parse_rules(
        "version: 1\nrules: [{name: a, measure: lag, groups: [billing, '*'], warn: 1}]"
    )
    judged = check(CaptureInput(CAPTURE), rules, "local", datetime.fromisoformat(early))
    assert [row["summary"] for row in judged.table.to_pylist()] == [
        then,
        "nothing was written in that time, or it has been deleted or pruned since",
    ]


def test_names_in_messages_cannot_act_on_a_terminal() -> None:
    names = ["\x1b[31mred", "line\nbreak", "plain"]
    for said in (
        unknown_group("x", names),
        unknown_group("\x1b[32mgreen", names, "in a capture"),
        unknown_topic("t\r", names, "g\n"),
    ):
        assert said.isprintable()
        assert "\\x1b[31mred, line\\nbreak, plain" in said


def test_warnings_of_a_command_have_its_prefix_and_one_line() -> None:
    code = (
        "import logging, sys; from sharelag.cli import main; import sharelag.cli as c\n"
        "def log(**_):\n"
        "    logging.getLogger('sharelag.x').warning('of %s', 'a\\nb')\n"
        "    for error in (OSError, KeyboardInterrupt):  # of a lost Java, and of Ctrl-C\n"
        "        logging.error(error.__name__, exc_info=error())\n"
        "c.cli = log\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "sharelag: of a\\nb\nsharelag: OSError\n"


def test_a_name_that_python_cannot_read_says_what_to_set() -> None:
    given = ["lag", "--capture", "demo", "--group", "groß"]
    ascii_only = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"}
    run = [sys.executable, "-m", "sharelag", *given]
    done = subprocess.run(run, capture_output=True, text=True, env=ascii_only, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("here as ascii, which one of them is not: set PYTHONUTF8=1\n")
