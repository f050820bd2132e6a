"""Answers of commands, methods and dashboards for the samples, as digests: a test of refactoring.

    python -m tools.answers             # print the answers that differ from recorded ones, and how
    python -m tools.answers lag dlq     # only answers of these commands and methods
    python -m tools.answers --record    # record them again

Refactored code must not change any answer. ``tools/answers.txt`` has one line per answer, a digest
and the question, so that a commit shows which answers it changes. The texts, truncated if long, are
in ``tools/answers.json.xz``. Commands run in this process. Parts that vary from run to run
(folders, widget ids) are replaced by constants.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import lzma
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import click

import sharelag
from sharelag.cli import cli
from sharelag.model import iso
from sharelag.workbench.bench import Workbench
from sharelag.workbench.result import Result
from tests.support.command import sharelag as command

REPOSITORY = Path(__file__).resolve().parents[1]
DIGESTS = Path(__file__).with_suffix(".txt")
TEXTS = Path(__file__).with_suffix(".json.xz")
#: Samples with several groups, which get all questions; the others only the current answers.
SHOPS = ("demo", "chapters")
#: Additional options by command. G is the group.
OPTIONS: dict[str, tuple[str, ...]] = {
    "check": ("--rules", "data/examples/rules.yaml"),
    "plan-delete": ("--group", "G"),
    "plan-reset": ("--group", "G", "--to-latest"),
    "simulate": ("--group", "G", "--members", "2,4", "--duration", "20s"),
}
#: Commands that run notebooks or wait for questions, with answers of the other commands.
LEFT = {"mcp", "report", "demo", "doctor", "export"}
#: Commands on a text or a file instead of an input.
OTHERS = (
    ("lint", "kafka-share-groups.sh --group billing --delete-offsets"),
    ("lint", "kafka-share-groups.sh --group billing --reset-offsets --to-offset 7 --execute"),
    ("lint", "kafka-consumer-groups.sh --group billing --describe"),
    ("settings", "--set", "share.delivery.count.limit=1", "--capture", "demo"),
    ("settings", "--set", "errors.deadletterqueue.topic.name=a b"),
    ("simulate", "--scenario", "list"),
    ("simulate", "--capture", "demo", "--show-scenario", "--group", "billing"),
    ("lag", "--capture", "nothing-there"),
    ("lag", "--raw", "nothing-there"),
    ("lag", "--segments", "tests"),
    ("lag", "--capture", "demo", "--as-of", "yesterday"),
    ("lag", "--capture", "demo", "--sort", "nothing"),
    ("lag",),
)
#: Number of an answer's characters that are stored with its digest: histories have millions.
KEPT = 60_000
Answers = dict[str, str]


def inputs() -> list[str]:
    """Return the commands that take a capture, except `LEFT`."""
    names = cli.list_commands(click.Context(cli))
    found = ((name, cli.get_command(click.Context(cli), name)) for name in names)
    return [
        name
        for name, one in found
        if one and name not in LEFT and any(option.name == "capture" for option in one.params)
    ]


@cache
def moment_of(sample: str) -> str:
    """Return a moment in the middle of a sample's records."""
    history = sharelag.open(sample, engine="local").history().table
    times: list[datetime] = sorted(history["record_timestamp"].to_pylist())
    return iso(times[len(times) // 2])


def command_lines() -> Iterator[tuple[str, ...]]:
    """Yield the command lines whose answers are recorded."""
    groups = {
        name: sharelag.open(name, engine="local").overview().table["group_id"].to_pylist()
        for name in sharelag.samples()
    }
    for name, sample in product(inputs(), groups):
        first, *more = groups[sample]
        given = tuple(first if word == "G" else word for word in OPTIONS.get(name, ()))
        asked = (name, "--capture", sample, "--engine", "local", *given)
        for format_ in ("human", "json"):
            yield (*asked, "-o", format_)
        if sample not in SHOPS:
            continue
        for format_ in ("csv", "yaml"):
            yield (*asked, "-o", format_)
        moment = moment_of(sample)
        chosen = [("--group", one) for one in (*more[:2], "nobody")] if "G" not in given else []
        for some, format_ in product([*chosen, ("--as-of", moment)], ("human", "json")):
            yield (*asked, *some, "-o", format_)
        for then in ((), ("--as-of", moment)):
            yield (name, "--capture", sample, "--engine", "spark", *given, *then, "-o", "json")
    yield from OTHERS
    yield from ((name, "--help") for name in cli.list_commands(click.Context(cli)))


def answer_of_command(line: tuple[str, ...]) -> str:
    """Return exit code, standard output and standard error of a command."""
    done = command(*line, env={"COLUMNS": "120"})
    return f"{done.returncode}\n{done.stdout}\n{done.stderr}"


def methods() -> list[str]:
    """Return the methods of a workbench that return a `Result` and need no argument."""
    return [
        name
        for name, one in inspect.getmembers(Workbench, inspect.isfunction)
        if not name.startswith("_")
        and inspect.signature(one).return_annotation == "Result"
        and all(
            parameter.default is not parameter.empty or parameter.name == "self"
            for parameter in inspect.signature(one).parameters.values()
        )
    ]


def answer_of_method(bench: Workbench, name: str) -> str:
    """Return a method's result as text, as HTML, as rows, and as charts."""
    try:
        result: Result = getattr(bench, name)()
    except sharelag.errors.ShareLagError as error:
        return f"{type(error).__name__}: {error}"
    rows = json.dumps(result.table.to_pylist(), default=str, indent=0)
    figures = [f"{one}: {result.figure(one).to_json()}" for one in result.charts]
    return "\n".join((repr(result), result._repr_html_(), rows, *figures))


def dashboards() -> dict[str, Callable[[Workbench], Any]]:
    """Return the constructors of dashboards by name."""
    import sharelag_widgets.dashboards as all_of_them

    return {name: getattr(all_of_them, name) for name in all_of_them.__all__}


def answer_of_dashboard(bench: Workbench, make: Callable[[Workbench], Any]) -> str:
    """Return the state of all widgets of a dashboard, children first."""
    from ipywidgets.embed import dependency_state

    state = dependency_state(make(bench))
    number = {identity: str(at) for at, identity in enumerate(state)}
    text = json.dumps(state, default=str, indent=0)
    return re.sub(r"[0-9a-f]{32}", lambda found: number.get(found[0], "?"), text)


def questions() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield questions, and functions that answer them."""
    for line in command_lines():
        yield "sharelag " + " ".join(line), partial(answer_of_command, line)
    for sample, engine in product(SHOPS, ("local", "spark")):
        bench = sharelag.open(sample, engine=engine)
        past = bench.at(moment_of(sample))
        for name in methods():
            yield f"{sample}, {engine}: {name}()", partial(answer_of_method, bench, name)
            yield f"{sample}, {engine}, past: {name}()", partial(answer_of_method, past, name)
        if engine == "local":
            for name, make in dashboards().items():
                yield f"{sample}: {name}", partial(answer_of_dashboard, bench, make)


def is_chosen(asked: str, names: Collection[str]) -> bool:
    """Return whether an answer belongs to one of these commands, methods and dashboards, or any."""
    name = asked.split()[1] if asked.startswith("sharelag ") else asked.split(": ")[1]
    return not names or name.removesuffix("()") in names


def plain(text: str) -> str:
    """Return a text without the parts that differ between machines."""
    return text.replace(str(REPOSITORY), "REPOSITORY").replace(tempfile.gettempdir(), "TMP")


def digest(text: str) -> str:
    """Return the first 16 characters of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write(answers: Answers) -> None:
    """Write the digests of answers, and their first characters."""
    lines = (f"{digest(text)}  {asked}\n" for asked, text in sorted(answers.items()))
    DIGESTS.write_text("".join(lines), "utf-8")
    begin = {asked: text[:KEPT] for asked, text in answers.items()}
    TEXTS.write_bytes(lzma.compress(json.dumps(begin, sort_keys=True).encode()))


def compare(answers: Answers, names: Collection[str]) -> Iterator[str]:
    """Yield the lines in which answers differ from the recorded ones."""
    known = dict(reversed(line.split("  ", 1)) for line in DIGESTS.read_text("utf-8").splitlines())
    begin: Answers = json.loads(lzma.decompress(TEXTS.read_bytes()))
    for asked in sorted(one for one in known.keys() | answers.keys() if is_chosen(one, names)):
        text = answers.get(asked, "")
        if known.get(asked) == digest(text):
            continue
        had, has = begin.get(asked, "").splitlines(), text[:KEPT].splitlines()
        lines = list(difflib.unified_diff(had, has, asked, asked, lineterm="", n=1))
        yield from lines or [f"--- {asked}", f"differs after its first {KEPT:,} characters"]


def main(record: bool, names: Collection[str]) -> int:
    """Answer everything; record it, or return 1 if it differs from the record."""
    warnings.simplefilter("ignore")
    answers = {asked: plain(ask()) for asked, ask in questions() if is_chosen(asked, names)}
    if record:
        write(answers)
        print(f"{len(answers):,} answers are recorded")
        return 0
    differences = list(compare(answers, names))
    for line in differences:
        print(line[:400])
    print(f"{len(answers):,} answers, {'which differ' if differences else 'all as recorded'}")
    return int(bool(differences))


if __name__ == "__main__":
    chosen = [one for one in sys.argv[1:] if one != "--record"]
    sys.exit(main("--record" in sys.argv[1:], chosen))
