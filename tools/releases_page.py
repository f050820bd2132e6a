"""Write the tables of ``docs/kafka.md``: features of each release of Kafka, and our use of them.

``python -m tools.releases_page`` writes them between the two marks of that page, from
the jars of the releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from sharelag.model.kafka_commands import SHARE_GROUPS, check_command
from tools.page import with_part
from tools.releases import RELEASES, Release

PAGE = Path(__file__).resolve().parents[1] / "docs" / "kafka.md"
BEGIN = "<!-- tables: python -m tools.releases_page -->"
END = "<!-- end of tables -->"
NONE, SAME = "-", "the same"
#: Settings and metrics of share groups.
SETTING = re.compile(r"(group\.)?share\.[a-z.]+|errors\.deadletterqueue\.[a-z.]+")
#: Texts of classes that are names of sensors, metric groups, and tags.
_NO_METRIC = (
    *("-metrics", "-sensor", "-acknowledgement", "ack-type", "CoordinatorWrite"),
    *("WriteLatency", "TopicPrune", "TopicPruneSensorName"),
)
_METRIC = re.compile(r"[a-z]+(-[a-z]+)+|[A-Z][a-z]\w*")

Cell = Callable[[Release], str]


class Row(NamedTuple):
    """A feature of releases: its cell for each, and how sharelag uses it."""

    subject: str
    cells: Sequence[str]
    sharelag: str


def each(cell: Cell) -> list[str]:
    """Return the cells of a subject with one text per release."""
    return [cell(release) or NONE for release in RELEASES]


def changing(names: Callable[[Release], Sequence[str]]) -> list[str]:
    """Return all names in the first release that has some, then additions and removals."""
    cells, before = [], None
    for release in RELEASES:
        now = list(names(release))
        if not now:
            cells.append(NONE)
        elif not before:
            cells.append(_listed(now))
        else:
            come = [f"+ {_listed([name])}" for name in now if name not in before]
            gone = [f"- {_listed([name])}" for name in before if name not in now]
            cells.append("<br>".join([*come, *gone]) or SAME)
        before = now
    return cells


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def fields(release: Release, record: str) -> list[str]:
    """Return the fields of a record in its schema, with their types."""
    schema = release.messages.get(record, {})
    common = {one["name"]: one["fields"] for one in schema.get("commonStructs", ())}
    return list(_fields(schema.get("fields", ()), common, ""))


def _fields(given: Sequence[dict[str, Any]], common: dict[str, Any], within: str) -> Iterator[str]:
    for field in given:
        tag = f", tag {field['tag']}" if "tag" in field else ""
        inner = field.get("fields") or common.get(field["type"].removeprefix("[]"), ())
        yield f"{within}{field['name']} {'[]struct' if inner else field['type']}{tag}"
        yield from _fields(inner, common, f"{field['name']}.")


def _versions(api: str) -> Cell:
    def cell(release: Release) -> str:
        schema = release.messages.get(f"{api}Request")
        if schema is None:
            return ""
        return str(schema["validVersions"]) + (
            ", unstable" if schema.get("latestVersionUnstable") else ""
        )

    return cell


def _since(answer: str, name: str) -> Cell:
    """Return the version from which a response has a field."""

    def cell(release: Release) -> str:
        found = _named(release.messages.get(answer, {}).get("fields", ()), name)
        return f"from version {found['versions'].rstrip('+')} on" if found else ""

    return cell


def _named(given: Sequence[dict[str, Any]], name: str) -> dict[str, Any] | None:
    for field in given:
        inner = field if field["name"] == name else _named(field.get("fields", ()), name)
        if inner is not None:
            return inner
    return None


def states(release: Release) -> list[str]:
    """Return the states of a record in the order of their codes."""
    found = release.texts("RecordState", "SharePartition$RecordState")
    return [text.title() for text in found if re.fullmatch("[A-Z]+", text)]


def metrics(*classes: str) -> Callable[[Release], list[str]]:
    """Return the names of the metrics of some classes."""

    def names(release: Release) -> list[str]:
        of_class = {text.rpartition("$")[2] for text in classes}
        found = (text for text in release.texts(*classes) if _METRIC.fullmatch(text))
        return sorted({text for text in found if not text.endswith(_NO_METRIC)} - of_class)

    return names


def settings(whose: str) -> Callable[[Release], list[str]]:
    """Return the names of the settings that are not internal."""

    def names(release: Release) -> list[str]:
        found: Sequence[str] = list(release.printed(whose))
        if whose == "groups" and not found:
            found = release.texts("GroupConfig")
        return sorted({name for name in found if SETTING.fullmatch(name)})

    return names


def _setting_rows() -> Iterator[str]:
    """Yield one row per setting: its first release, default and valid values, and changes."""
    for whose, word in _WHOSE.items():
        names = settings(whose)
        for name in sorted({name for release in RELEASES for name in names(release)}):
            has = [release for release in RELEASES if name in names(release)]
            told = [
                (one.name, _value(one.printed(whose)[name]))
                for one in has
                if name in one.printed(whose)
            ]
            first = told[0][1] if told else NONE
            changes = [
                f"{release}: {now}" for (_, was), (release, now) in pairwise(told) if was != now
            ]
            yield f"| `{name}` | {word} | {has[0].name} | {first} | {'<br>'.join(changes) or NONE} |"


def _value(printed: Any) -> str:
    return f"{printed.default} {printed.valid}".strip() or "empty"


def _not_yet(release: Release) -> str:
    """Return the actions that the command parses, but does not implement."""
    said = " ".join(release.texts("ShareGroupCommand"))
    return _listed(re.findall(r"(--[a-z-]+) option is not yet implemented", said))


def _columns(release: Release) -> list[str]:
    shown = ("START-OFFSET", "LEADER-EPOCH", "LAG")
    return [name for name in shown if name in release.texts("ShareGroupCommand$ShareGroupService")]


def _delete_all_topics(release: Release) -> str:
    line = [SHARE_GROUPS.name, "--bootstrap-server", "b:1", "--group", "g", "--delete"]
    refused = check_command([*line, "--all-topics"], release.version).problems
    return "refused" if refused else "no error"


def _resets(release: Release) -> list[str]:
    if "--reset-offsets" in _not_yet(release):
        return []
    options = release.options("share groups")
    return sorted(f"--{name}" for name in options if name.startswith("to-") or name == "from-file")


def _has_queues(release: Release) -> str:
    return "yes" if release.texts("ShareGroupDLQStateManager") else ""


#: Owners of settings that releases print, in words.
_WHOSE = {"groups": "group", "brokers": "broker", "topics": "topic", "consumers": "consumer"}
_SETTINGS = """\
## Settings

`settings` shows and checks those of groups and brokers from 4.1 on, with `--kafka-version` by the defaults and bounds of that release.
`settings` and `dlq` show those of topics, and `settings --consumer-config` checks a file of consumers'.

| setting | of | since | default, and what is valid | changed |
|---|---|---|---|---|"""
_MEMBERS = "members, epochs and assignments"
_GENERATIONS = "[generations](generations.md)"


def _sections() -> dict[str, tuple[Row, ...]]:
    return {
        "What it writes": (
            Row(
                "`metadata.version` of a new cluster",
                each(lambda one: one.features["metadata.version"]),
                "`doctor` tells the release of the brokers by it, never their patch level",
            ),
            Row(
                "`share.version` of a new cluster",
                each(lambda one: one.features.get("share.version", "")),
                "`doctor` fails where it is 0, and says how to turn share groups on",
            ),
            Row(
                "keys of `ShareSnapshot` and `ShareUpdate`",
                changing(partial(fields, record="ShareSnapshotKey")),
                "read, and each record checked against the partition that it belongs to (`health`)",
            ),
            Row(
                "`ShareSnapshot`",
                changing(partial(fields, record="ShareSnapshotValue")),
                f"G3 in 4.0, G4 from 4.1 on ({_GENERATIONS}); without a count `lag` is unknown, and "
                "`effective_lag` is not",
            ),
            Row(
                "`ShareUpdate`",
                changing(partial(fields, record="ShareUpdateValue")),
                "the same",
            ),
            *(
                Row(f"`{name}`", changing(partial(fields, record=f"{name}Value")), made)
                for name, made in {
                    "ShareGroupPartitionMetadata": "passed over: no answer needs it",
                    "ShareGroupMemberMetadata": _MEMBERS,
                    "ShareGroupMetadata": "epochs; 4.0's are rejects, which say what they lack",
                    "ShareGroupTargetAssignmentMetadata": "epoch of the assignment; its time is null "
                    "where not written",
                    "ShareGroupTargetAssignmentMember": _MEMBERS,
                    "ShareGroupCurrentMemberAssignment": _MEMBERS,
                    "ShareGroupStatePartitionMetadata": "partitions with state; 4.0's are rejects that "
                    "say what they lack",
                }.items()
            ),
            Row(
                "states of a record in memory",
                changing(states),
                "windows have all five; brokers write no `Acquired`, and before 4.4 no `Archiving`",
            ),
        ),
        "What it shows": (
            *(
                Row(f"`{name}`", each(_versions(name)), made)
                for name, made in {
                    "ShareGroupHeartbeat": "read from [request logs](requests.md)",
                    "ShareGroupDescribe": "the same; members come from the groups' records",
                    "ShareFetch": "read from request logs: acquisitions and locks",
                    "ShareAcknowledge": "read from request logs: acknowledgements",
                    "InitializeShareGroupState": "read from request logs",
                    "ReadShareGroupState": "the same",
                    "WriteShareGroupState": "the same; by version 1 `doctor` knows of the count",
                    "DeleteShareGroupState": "the same",
                    "ReadShareGroupStateSummary": "the same",
                    "DescribeShareGroupOffsets": "not asked: lag comes from the state topic",
                    "AlterShareGroupOffsets": "not asked: `plan-reset` prints the command",
                    "DeleteShareGroupOffsets": "not asked: `plan-delete` prints the command",
                }.items()
            ),
            Row(
                "`DeliveryCompleteCount` in `ReadShareGroupStateSummary`",
                each(_since("ReadShareGroupStateSummaryResponse", "DeliveryCompleteCount")),
                "read from the records themselves",
            ),
            Row(
                "`Lag` in `DescribeShareGroupOffsets`",
                each(_since("DescribeShareGroupOffsetsResponse", "Lag")),
                "`lag` is the same number; `reconcile` says why another one differs",
            ),
            Row(
                "options of `kafka-share-groups.sh`",
                changing(lambda one: sorted(f"--{name}" for name in one.options("share groups"))),
                "`lint --kafka-version` checks a command as that release does",
            ),
            Row(
                "its actions that are not implemented",
                each(_not_yet),
                "`lint` refuses them",
            ),
            Row(
                "numbers that `--describe --offsets` prints",
                changing(_columns),
                "`reconcile --described` reads all of them; what is not printed is unknown",
            ),
            Row(
                "options of `kafka-console-share-consumer.sh`",
                changing(lambda one: sorted(f"--{name}" for name in one.options("console"))),
                "`lint` checks them; `consumed` reads what it prints",
            ),
            *(
                Row(f"metrics: `{name}`", changing(metrics(*classes)), made)
                for name, classes, made in (
                    (
                        "ShareGroupMetrics",
                        ("ShareGroupMetrics", "SharePartitionManager$ShareGroupMetrics"),
                        "`metrics` shows them, and says acknowledgements in a sentence",
                    ),
                    (
                        "SharePartitionMetrics",
                        ("SharePartitionMetrics",),
                        "what is acquired and whose locks expired, beside [lag](metrics.md)",
                    ),
                    ("ShareSessionCache", ("ShareSessionCache",), "`metrics` shows them"),
                    (
                        "share-coordinator-metrics",
                        (
                            "ShareCoordinatorMetrics",
                            "ShareCoordinatorMetrics$ShareGroupPruneMetrics",
                        ),
                        "`metrics` shows them; `health` finds by the records what could be pruned",
                    ),
                )
            ),
        ),
        "What it allows": (
            Row(
                "targets of `--reset-offsets`",
                changing(_resets),
                "`plan-reset` says what would come again, and prints a command for the release",
            ),
            Row(
                "`--delete` with `--all-topics`",
                each(_delete_all_topics),
                "`plan-delete` says what would be lost: offsets of all topics, in any case",
            ),
            Row(
                "dead-letter queues",
                each(_has_queues),
                "[`dlq`](dead-letters.md) compares a queue with what was given up",
            ),
        ),
    }


def tables() -> str:
    """Return the generated part of the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    head = " | ".join(release.name for release in RELEASES)
    for section, rows in _sections().items():
        yield from (f"## {section}", "", f"| | {head} | sharelag |")
        yield "|---" * (len(RELEASES) + 2) + "|"
        for row in rows:
            yield f"| {row.subject} | {' | '.join(row.cells)} | {row.sharelag} |"
        yield ""
    yield _SETTINGS
    yield from (*_setting_rows(), "")
    asked = ", ".join(release.version for release in RELEASES)
    yield from (f"Asked of the jars of Kafka {asked}.", "")


def written(page: str) -> str:
    """Return the page with its current tables."""
    return with_part(page, BEGIN, END, tables())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
