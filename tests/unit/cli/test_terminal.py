"""What a terminal shows: the worst first, within its width; and help that says what it is for."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr
from pathlib import Path
from shutil import copytree
from threading import Event
from types import SimpleNamespace

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag.cli import cli, output
from sharelag.cli.options import SECTIONS, Command, Group
from sharelag.cli.output import reading_bar, simulation_bar, tell
from sharelag.inputs.recorded import folder_of
from sharelag.inputs.spark.sessions import notice
from sharelag.metrics.reset import reset_commands
from sharelag.metrics.rights import NEEDS
from sharelag.tables.lines import fit, widest
from sharelag.wire import SHARE_SNAPSHOT, encode_record
from tests.support.command import ask, refused, rows_of, sharelag_on_a_terminal
from tests.support.command import sharelag as command
from tests.support.readings import open_once
from tests.support.records import raw, raw_file, row

EXAMPLES = {name: text for some in SECTIONS.values() for name, text in some.items()}
#: Examples that need a cluster, a file of somebody's or a standard input, or that take long.
NOT_RUN = {"doctor", "capture", "requests", "check", "report", "export", "mcp", "demo", "simulate"}
NOT_RUN |= {"consumed", "dlq", "lint", "metrics", "peek"}
INSTALL = (Path(__file__).parents[3] / "docs" / "install.md").read_text()


def test_the_largest_lag_comes_first_and_numbers_are_aligned() -> None:
    done = command("lag", "--capture", "chapters")
    heading, *rows = done.stdout.splitlines()
    place = heading.index(" LAG") + 4
    texts = [row[:place].split()[-1] for row in rows]
    assert all(row[place - 1] != " " and row[place] == " " for row in rows)
    known = [int(text) for text in texts if text != "-"]
    assert known == sorted(known, reverse=True)
    assert texts[len(known) :] == ["-"] * (len(rows) - len(known))  # unknown ones come last
    total = open_once("chapters").lag().to_pandas()["lag"]
    said = f"lag {int(total.sum()):,} (+{total.isna().sum()} unknown)"
    assert f"sharelag: {len(rows)} share partitions, {said}, as of " in done.stderr


def test_the_order_and_the_number_of_rows_can_be_chosen() -> None:
    asked = ("lag", "--capture", "chapters", "-o", "json")
    plain = ask(*asked[:3])
    assert [(row["group_id"], row["partition"]) for row in plain[:2]] == [
        ("analytics", 0),
        ("analytics", 1),
    ]  # scripts get the same order as ever
    largest = command(*asked, "--sort", "end_offset", "--top", "3").stdout.splitlines()
    offsets = sorted((row["end_offset"] for row in plain), reverse=True)
    assert [json.loads(line)["end_offset"] for line in largest] == offsets[:3]
    smallest = command(*asked, "--sort", "lag:up", "--top", "1").stdout
    assert json.loads(smallest)["lag"] == 0
    said = refused(*asked, "--sort", "size", code=2)
    assert "unknown column 'size' to sort by: choose one of group_id, topic" in said
    assert command(*asked, "--sort", "lag:sideways").returncode == 2


@pytest.mark.parametrize("columns", [80, 60])
def test_eighty_columns_hold(columns: int) -> None:
    lines = sharelag_on_a_terminal(columns, "lag", "--capture", "chapters").splitlines()
    assert "LEADER-EPOCH" not in lines[0]
    assert " LAG " in lines[0]
    assert max(map(len, lines)) <= columns
    if columns == 60:
        assert any(line.startswith("notific\u2026 ") for line in lines)
    wide = sharelag_on_a_terminal(200, "lag", "--capture", "chapters").splitlines()
    assert "LEADER-EPOCH" in wide[0]
    assert any(line.startswith("notifications ") for line in wide)
    # A terminal that does not tell its width.
    assert "poison" in sharelag_on_a_terminal(0, "explain", "--capture", "poison")
    asked = ("explain", "--capture", "poison")
    dumb = sharelag_on_a_terminal(200, *asked, term="dumb")
    assert dumb == re.sub(r"\x1b\[[\d;]*m", "", sharelag_on_a_terminal(200, *asked))


#: Commands with a table each, and what must be seen of it however narrow the terminal is.
TABLES = {
    "lag": "LAG",
    "progress": "DRAIN",
    "groups": "#MEMBERS",
    "members": "ASSIGNMENT",
    "brokers": "LEADER",
    "windows": "RUNS",
    "history --group billing": "FINISHED",
    "history --events": "EVENT",
    "history --every 5m": "LAG",
    "imbalance": "GINI",
    "imbalance --verdict": "VERDICT",
    "settings": "share.partition.max.record.locks",
    "health": "RECORDS",
    "reconcile": "DIFFERENCES",
    "plan-reset --group billing --to-latest": "SKIPPED",
}


def test_every_table_fits_eighty_columns() -> None:
    at = ("--capture", "demo")
    tables = {words: sharelag_on_a_terminal(80, *words.split(), *at) for words in TABLES}
    for words, table in tables.items():
        assert TABLES[words] in table, words
        rows = [line for line in table.splitlines() if ": " not in line]  # else a sentence
        assert max(map(len, rows)) <= 80, words
    imbalance = tables["imbalance"]  # in which nothing is cut, and neither what is measured is
    assert "\u2026" not in imbalance
    assert re.search("search-index  catalogue partition finished/hour +16,645 ", imbalance)


def test_a_rules_subject_is_whole_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "version: 1\nrules:\n- {name: no working members, measure: age, warn: 5m, for: 1m}\n"
        "- {name: lag, measure: lag, warn: 900, for: 1m}\n"
    )
    asked = ("check", "--rules", str(rules), "--capture", "demo")
    said = sharelag_on_a_terminal(80, *asked, status=1)
    assert max(map(len, said.splitlines())) <= 80
    assert "\u2026" not in said
    assert re.search(r"no working members search-index +catalogue:1 +age 7m 15s, since", said)
    assert re.search(r"lag +fulfilment +- +lag 10,512, since", said)
    assert re.search(r"\b2026-11-23 12:\d\d:\d\d UTC\b", said)
    rows = rows_of(command(*asked, "-o", "json"))
    assert {"topic", "partition"} <= rows[0].keys()


def test_the_worst_come_first_and_scripts_get_the_same_order_as_ever() -> None:
    for name, column in (("progress", "age_ms"), ("groups", "lag"), ("brokers", "lag")):
        plain = ask(name, "--capture", "demo")
        assert [row["group_id"] for row in plain] == sorted(row["group_id"] for row in plain)
        chosen = ask(name, "--capture", "demo", "--sort", column, "--top", "3")
        most, values = ([row[one] for row in chosen] for one in ("group_id", column))
        assert values == sorted((row[column] or 0 for row in plain), reverse=True)[:3]
        people = command(name, "--capture", "demo", "--top", "3").stdout.splitlines()[1:]
        assert [line.split()[0] for line in people] == most


def test_long_names_are_shortened_where_they_can_still_be_told_apart(tmp_path: Path) -> None:
    long = ["x" * 199 + "a", "x" * 199 + "b", "short"]
    cells = {"GROUP": ["GROUP", *long], "LAG": ["LAG", "1", "2", "3"]}
    fits = fit(cells, {"GROUP": "group_id", "LAG": "lag"}, 40)
    assert (len(set(fits["GROUP"])), fits["GROUP"][3]) == (4, "short")
    assert {len(text) for text in fits["GROUP"][1:3]} == {36}
    # A character that takes two places takes them of the width.
    wide = {"GROUP": ["GROUP", "\u8acb\u6c42" * 20], "LAG": ["LAG", "1"]}
    assert widest(fit(wide, {"GROUP": "group_id", "LAG": "lag"}, 40)["GROUP"]) <= 36


def test_a_sentence_is_wrapped_and_never_cut() -> None:
    words = "the in-flight window is full: nothing new is delivered until its first record is done"
    cells = {"GROUP": ["GROUP", "g" * 30], "SUMMARY": ["SUMMARY", words]}
    fits = fit(cells, {"GROUP": "group_id", "SUMMARY": "summary"}, 60)
    assert " ".join(fits["SUMMARY"][1].split("\n")) == words
    assert widest(fits["GROUP"]) + 1 + widest(fits["SUMMARY"]) <= 60


def test_columns_without_a_place_are_named() -> None:
    asked = ("brokers", "--capture", "demo", "--top", "2")
    narrow, wide = (sharelag_on_a_terminal(width, *asked) for width in (80, 300))
    gone = set(wide.split("\n")[0].split()) - set(narrow.split("\n")[0].split())
    said = " ".join(narrow.split("\n")[3:]).partition("(too narrow for ")[2].partition(":")[0]
    assert set(said.split(", ")) == gone - {"LEADER-RACK"}  # which nobody has set
    assert "LEADER-EPOCH" in gone
    assert "too narrow" not in wide


def test_the_lines_below_a_table_fit_the_terminal_and_stay_whole_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = f"capture of {'x' * 22} at 2026-11-23T12:30:20Z"
    words = f"28 share partitions, lag 21,238, as of 2026-11-23T12:30:20.783Z, {cluster}"
    tell(words)
    assert capsys.readouterr().err == f"sharelag: {words}\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for width in (80, 60):
        monkeypatch.setenv("COLUMNS", str(width))
        tell(words)
        lines = capsys.readouterr().err.splitlines()
        assert max(map(len, lines)) <= width
        assert " ".join(line.strip() for line in lines) == f"sharelag: {words}"
    monkeypatch.delenv("COLUMNS")  # the terminal's own width, while standard output is a file
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((50, 24)))
    tell(words)
    assert max(map(len, capsys.readouterr().err.splitlines())) <= 50


def test_a_command_to_copy_stays_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell would run each line, and a name with spaces would become another name."""
    (command, _) = reset_commands("a  b: c" + " d" * 50, ["orders"], "latest")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    tell(f"Kafka's command: {command}")
    assert capsys.readouterr().err == f"sharelag: Kafka's command:\n{command}\n"
    # No command that a shell takes: it is a part of the sentence.
    tell("kafka-share-groups.sh cannot do this reset: Admin.alterShareGroupOffsets of Java can.")
    assert max(map(len, capsys.readouterr().err.splitlines())) <= 60


def test_names_that_are_longer_than_a_line_break_behind_dots() -> None:
    problem = "greater than group.share.max.delivery.count.limit = 10, " + "x" * 30
    cells = {"NAME": ["NAME", "n" * 50], "PROBLEM": ["PROBLEM", problem]}
    fits = fit(cells, {"NAME": "name", "PROBLEM": "problem"}, 75)
    assert fits["PROBLEM"][1].split("\n") == [
        *("greater than group.", "share.max.delivery.", "count.limit = 10,"),
        *("x" * 24, "x" * 6),
    ]


def test_thousands_stand_apart_where_people_look_and_not_in_a_pipe() -> None:
    looked_at = sharelag_on_a_terminal(80, "lag", "--capture", "demo", "--top", "1")
    piped = command("lag", "--capture", "demo", "--top", "1").stdout
    assert looked_at.splitlines()[1].split()[3:5] == ["7093", "10,510"]  # offsets are copied
    assert piped.splitlines()[1].split()[4:6] == ["7093", "10510"]


def test_levels_have_colours_on_terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: [{name: old, measure: age, critical: 1m}]\n")
    asked = ("check", "--rules", str(rules), "--capture", "demo")
    red = "\x1b[1;31mcritical\x1b[0m old"
    assert red in sharelag_on_a_terminal(80, *asked, status=2)
    assert "\x1b" not in command(*asked).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\ncritical old" in sharelag_on_a_terminal(80, *asked, status=2)
    assert "\x1b[31m" not in sharelag_on_a_terminal(80, "explain", "--capture", "poison")


def test_a_comparison_has_its_best_in_bold_on_a_terminal_and_ends_in_a_sentence() -> None:
    asked = ("simulate", "--capture", "slow", "--members", "2,6", "--compare")
    looked_at = sharelag_on_a_terminal(120, *asked).splitlines()
    (two,), (six,) = ([one for one in looked_at if one.startswith(f"{n} members ")] for n in (2, 6))
    assert re.match(r"6 members \x1b\[1m +[\d.]+ s\x1b\[0m 7 of 7 ", six)
    assert re.match(r"2 members +not in ", two)
    assert re.search(r" \d,\d+ ", two)
    done = command(*asked)
    assert "\x1b" not in done.stdout
    assert "," not in done.stdout  # of the lag, as of all amounts in a pipe
    better, other = done.stderr.splitlines()[-1].split("; ")
    assert re.match(r"sharelag: 6 members is better by p95 age and drain time over \d+m", better)
    assert re.fullmatch(
        r"2 members: not drained within .+, lag grows to [\d,]+, p95 .+ \d+s", other
    )


def test_the_worst_group_is_explained_first() -> None:
    lines = command("explain", "--capture", "chapters").stdout.splitlines()
    groups = [line.split("  ") for line in lines if line[:1].strip()]
    lags = [int(re.sub(r"\D", "", state.split(" in ")[0]) or 0) for _, state in groups]
    critical = open_once("chapters").explain().to_pandas()
    worst = set(critical[critical["severity"] == "critical"]["group_id"])
    names = [name for name, _ in groups]
    assert set(names[: len(worst)]) == worst
    assert lags[: len(worst)] == sorted(lags[: len(worst)], reverse=True)


def test_a_sample_is_named_like_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    by_name = command("explain", "--capture", "poison", "-o", "json").stdout
    assert by_name == command("explain", "--capture", str(folder_of("poison")), "-o", "json").stdout
    assert json.loads(by_name)["cause"] == "poison_records"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poison" / "reports").mkdir(parents=True)  # as `make demo` leaves a folder `demo`
    beside = command("explain", "--capture", "poison", "-o", "json")
    assert beside.stdout == by_name
    said = "poison in this folder is not a capture: the sample of that name was opened instead"
    assert caplog.messages.count(said) == 1  # which `main` prints on standard error
    caplog.clear()
    with caplog.at_level("WARNING"):
        causes = sharelag.open("poison", engine="local").explain().table
    assert causes.column("cause").to_pylist() == ["poison_records"]
    assert "is not an input: the sample of that name was opened instead" in caplog.text
    # What was captured here comes before a sample of that name.
    copytree(folder_of("chapters"), tmp_path / "poison", dirs_exist_ok=True)
    caplog.clear()
    assert "analytics" in command("lag", "--capture", "poison", "--by", "group").stdout
    assert not caplog.messages


def test_a_misspelled_name_is_told() -> None:
    assert command("lag", "--capture", "dmo").stderr.endswith("; did you mean 'demo'?\n")
    assert "did you mean" not in command("lag", "--capture", "/nowhere/dmo").stderr
    assert "did you mean 'daily'?" in command("report", "dayly", "--capture", "demo").stderr
    group = command("lag", "--capture", "demo", "--group", "b1lling").stderr
    assert "did you mean 'billing'?" in group
    column = command("progress", "--capture", "demo", "--sort", "agems").stderr
    assert "did you mean 'age_ms'?" in column


def test_a_comparison_names_measures_and_variants_whole_on_a_narrow_terminal() -> None:
    given = ("--members", "2,6", "--compare", "--duration", "5s", "--seeds", "2")
    measures = [part for name in ("lag_p95", "age_p95_ms", "moves") for part in ("--measure", name)]
    narrow = sharelag_on_a_terminal(80, "simulate", "--capture", "slow", *given, *measures)
    rows = [line for line in narrow.splitlines() if re.match(r"[a-z]\w* +[26] members ", line)]
    assert len(rows) == len({row.split()[0] for row in rows}) * 2 == 6
    assert "\u2026" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    gone = "(too narrow for FROM, TO, DIFF-FROM, DIFF-TO, RATIO: -o json has all)"
    assert gone in " ".join(narrow.split())
    decides = sharelag_on_a_terminal(80, "simulate", "--capture", "slow", *given)
    assert re.search(r"^2 members .* \d.*baseline", decides, re.MULTILINE)
    assert "\u2026" not in decides
    assert max(map(len, decides.splitlines())) <= 80


def test_the_rows_of_an_answer_are_counted_as_elsewhere(tmp_path: Path) -> None:
    for count, words in ((1, "1 share partition, "), (1001, "1,001 share partitions, ")):
        states = [row(0, [], partition=partition) for partition in range(count)]
        path = raw_file(tmp_path, raw([encode_record(SHARE_SNAPSHOT, state) for state in states]))
        for name in ("lag", "windows"):
            said = command(name, "--raw", path, "--engine", "local").stderr
            assert said.startswith(f"sharelag: {words}")


def test_groups_whose_names_differ_by_a_line_feed_are_told_apart(tmp_path: Path) -> None:
    names = ["a\nb", "a\\nb"]
    keys = [row(0, [(5, 6, 0, 1)]) | {"group_id": name} for name in names]
    path = tmp_path / "raw.parquet"
    pq.write_table(
        pa.Table.from_batches([raw([encode_record(SHARE_SNAPSHOT, one) for one in keys])]), path
    )
    here = ("--raw", str(path), "--engine", "local")
    for words in (["groups"], ["lag"], ["windows"], ["windows", "--picture"], ["explain"],
                  ["lag", "-o", "csv"]):  # fmt: skip
        shown = {line.split()[0].split(",")[0] for line in command(*words, *here).stdout.split("\n")
                 if line.startswith("a")}  # fmt: skip
        assert {one.removesuffix(":") for one in shown} == {"a\\nb", "a\\\\nb"}, words


SOURCE = SimpleNamespace(size=lambda: 10)


class Terminal(io.StringIO):
    """Standard error that people look at, and that notes when something is shown."""

    def __init__(self, looked_at: bool = True) -> None:
        super().__init__()
        self.looked_at, self.shown = looked_at, Event()

    def isatty(self) -> bool:
        return self.looked_at

    def write(self, text: str) -> int:
        if "working" in text:
            self.shown.set()
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(output, "_QUIET", 0.01)
    return Terminal()


def test_what_takes_long_says_so_and_leaves_nothing_behind(terminal: Terminal) -> None:
    with redirect_stderr(terminal), reading_bar(SOURCE) as read:
        assert read is SOURCE
        assert terminal.shown.wait(60)
    written = terminal.getvalue()
    assert written.startswith("\rworking on the answer, 0 s\x1b[K")
    assert written.endswith("\r\x1b[K")
    with redirect_stderr(terminal), pytest.raises(ValueError, match="broken"), reading_bar(SOURCE):
        raise ValueError("broken")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_without_a_look_it_is_quiet(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.looked_at = False
    with redirect_stderr(terminal), reading_bar(SOURCE):
        pass
    terminal.looked_at = True
    with monkeypatch.context() as dumb, redirect_stderr(terminal):
        dumb.setenv("TERM", "dumb")  # its \r and escapes would be shown
        with reading_bar(SOURCE), notice("starting Spark"), simulation_bar() as progress:
            progress(0, 1)
    monkeypatch.setattr(output, "_QUIET", 60)
    with redirect_stderr(terminal), reading_bar(SOURCE):
        pass
    assert terminal.getvalue() == ""


def test_a_bar_counts_what_is_read_of_large_inputs_as_they_are(terminal: Terminal) -> None:
    half = pa.record_batch({"key": pa.nulls(150_000)})
    large = SimpleNamespace(size=lambda: 300_000, batches={"t": [half]}.get, kafka_version="4.3")
    with redirect_stderr(terminal), reading_bar(large) as read:
        assert (read.kafka_version, [*read.batches("t")]) == ("4.3", [half])
    assert "reading records" in terminal.getvalue()
    assert "150000/300000" in terminal.getvalue()


def test_the_line_of_spark_stays_alone(terminal: Terminal) -> None:
    with redirect_stderr(terminal), ExitStack() as stack:
        with notice("starting Spark"):
            stack.enter_context(reading_bar(SOURCE))
            assert not terminal.shown.wait(0.5)
            assert terminal.getvalue() == "\rstarting Spark ...\x1b[K"
        assert terminal.shown.wait(60)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_every_command_stands_in_one_section() -> None:
    names = [name for some in SECTIONS.values() for name in some]
    assert sorted(names) == sorted(cli.commands)


def test_the_rights_of_every_command_that_reads_a_cluster_are_known() -> None:
    reading = {
        name
        for name, command in cli.commands.items()
        for one in (command, *getattr(command, "commands", {}).values())
        if any("--bootstrap-server" in option.opts for option in one.params)
    }
    known = {one.split()[0] for need in NEEDS for one in (*need.needed_by, *need.used_by)}
    assert {"lag", "export", "mcp"} <= reading
    assert reading <= known


def test_the_help_has_sections_whole_summaries_and_examples() -> None:
    text = command("--help").stdout
    words = " ".join(text.split())
    told = [line[:-1] for line in text.splitlines() if line[:1].strip() and line.endswith(":")]
    assert told == ["Options", *SECTIONS]
    for name, example in EXAMPLES.items():
        assert cli.commands[name].get_short_help_str(1000) in words
        assert f"$ {example}\n" in text
    assert "..." not in text.replace("[ARGS]...", "")
    assert max(map(len, text.splitlines())) <= 80


def test_the_help_holds_in_a_narrow_terminal() -> None:
    context = click.Context(cli, info_name="sharelag", terminal_width=60)
    assert max(map(len, cli.get_help(context).splitlines())) <= 80


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_understood(name: str) -> None:
    first, *arguments = shlex.split(EXAMPLES[name])
    context = click.Context(cli)
    command: click.Command = cli
    while isinstance(command, click.Group) and arguments:
        called, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command = found
        context = command.make_context(called, list(arguments), parent=context)
        arguments = [*context._protected_args, *context.args]
    assert (first, context.find_root().command) == ("sharelag", cli)
    assert EXAMPLES[name].split()[1] == name


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NOT_RUN])
def test_demo_examples_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = command(*shlex.split(EXAMPLES[name])[1:], code=0)
    assert len(answer.stdout.splitlines()) > 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_of_the_documentation_prints_a_script(shell: str) -> None:
    assert f"_SHARELAG_COMPLETE={shell}_source sharelag" in INSTALL
    script = command(env={"_SHARELAG_COMPLETE": f"{shell}_source"}, code=0)
    assert "_SHARELAG_COMPLETE=" in script.stdout
    if found := shutil.which(shell):
        read = subprocess.run([found, "-n"], input=script.stdout, text=True, check=False)
        assert read.returncode == 0


def completed(shell: str, *words: str) -> list[str]:
    """What the shell is offered for the last of these words."""
    env = {"_SHARELAG_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(words)}
    position = words[-1] if shell == "fish" else str(len(words) - 1)
    return command(env=env | {"COMP_CWORD": position}, code=0).stdout.splitlines()


def test_commands_options_and_choices_are_offered() -> None:
    assert completed("bash", "sharelag", "pl") == ["plain,plan-delete", "plain,plan-reset"]
    assert completed("bash", "sharelag", "lag", "--bootstrap") == ["plain,--bootstrap-server"]
    assert completed("bash", "sharelag", "lag", "--engine", "lo") == ["plain,local"]
    zsh = completed("zsh", "sharelag", "mem")
    assert zsh[:2] == ["plain", "members"]
    assert "members" in re.split(r"[,\t\n]", "\n".join(completed("fish", "sharelag", "mem")))


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes(tmp_path: Path) -> None:
    command = tmp_path / "sharelag"
    command.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from sharelag.cli import main; main()' \"$@\"\n"
    )
    command.chmod(0o755)
    asked = """
    eval "$(_SHARELAG_COMPLETE=bash_source sharelag)"
    COMP_WORDS=(sharelag wi); COMP_CWORD=1
    _sharelag_completion sharelag
    echo "${COMPREPLY[@]}"
    """
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shell = ["bash", "-c", asked]
    answer = subprocess.run(shell, env=env, capture_output=True, text=True, check=True)
    assert answer.stdout == "windows\n"


# ---- an option of one value that is given twice is refused, not taken as the last one silently ---
def commands(
    found: click.Command = cli, name: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and group of commands, with its name as people type it."""
    yield name, found
    if isinstance(found, click.Group):
        for one, below in found.commands.items():
            yield from commands(below, (*name, one))


#: Every option of one value of every command; a group's own stand before its commands.
OPTIONS = [
    (name, max(option.opts, key=len))
    for name, found in commands()
    for option in found.params
    if isinstance(option, click.Option) and not (option.is_flag or option.multiple or option.count)
]


def test_every_command_is_of_the_kind_that_refuses() -> None:
    assert all(isinstance(found, Command | Group) for _, found in commands())
    named = {(name[0], option) for name, option in OPTIONS if name}
    assert {("windows", "--raw"), ("lag", "--capture"), ("dlq", "--group")} <= named


def test_an_option_of_one_value_is_given_once() -> None:
    for name, option in OPTIONS:
        done = command(*name, option, "1", option, "2", code=3 if name == ("check",) else 2)
        assert f"{option} takes one value and is given more than once: " in done.stderr, name
        assert done.stdout == "" or name == ("check",), (name, option)


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        (["windows", "--raw", "a.parquet", "--raw", "b.parquet"], "put them in one folder"),
        (["dlq", "--raw", "state", "--raw", "groups"], "put them in one folder"),
        (["windows", "--capture", "demo", "--capture", "slow"], "run the command once for each"),
        (["report", "daily", "--capture", "demo", "--capture=demo"], "run the command once"),
    ],
)
def test_what_to_do_instead_is_said(asked: list[str], instead: str) -> None:
    assert instead in command(*asked).stderr


def test_what_may_be_repeated_still_is() -> None:
    done = command(
        *("lag", "--capture", "demo", "--group", "billing", "--group", "fulfilment"),
        *("-o", "json", "-v", "-v"),
        code=0,
    )
    assert "billing" in done.stdout
    assert "fulfilment" in done.stdout
