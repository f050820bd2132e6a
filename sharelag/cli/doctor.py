"""`sharelag doctor`: checks of this machine and of a cluster, with what to do about each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from sharelag.cli import options as option
from sharelag.cli.options import Call, command, config_of, flags, given_options, names_cluster
from sharelag.cli.output import note, plain, print_rows, tell, write
from sharelag.errors import ShareLagError
from sharelag.java import find_java
from sharelag.model.versions import NEWEST, has_reached
from sharelag.tables.words import pluralize, terminal

if TYPE_CHECKING:
    from sharelag.inputs.kafka.config import ClientConfig

OLDEST_JAVA = 17
#: Number of records to examine at the end of each state partition.
_LATEST = 100


class Check(NamedTuple):
    """The result of one check."""

    verdict: str  # ok, warn, fail
    what: str
    found: str
    advice: str = ""


@command(option.CLUSTER, option.OUTPUT, option.TIMEOUT, option.VERBOSE)
@option.switch(
    "--rights  Show the rights that commands need on the cluster, and how to grant missing ones."
)
@option.repeat("--group GROUP  With --rights: limit to this group; repeatable.")
@option.repeat("--topic TOPIC  With --rights: limit to this topic; repeatable.")
@option.text(
    "--principal USER  With --rights: the rights of another user (User:alice), by the ACLs that "
    "the cluster lists."
)
@option.text(
    "--super-users USERS  With --principal: the brokers' super.users (User:a;User:b), which they "
    "do not show."
)
@option.text(
    "--kafka-version VERSION  Version of the brokers, such as 4.3.1: list its defects; brokers "
    "report only their release."
)
def doctor(
    output: str,
    rights: bool,
    group: tuple[str, ...],
    topic: tuple[str, ...],
    principal: str | None,
    super_users: str | None,
    kafka_version: str | None,
    **options: Any,
) -> int:
    """Check this machine, and a cluster if one is given, and say what to fix.

    Known defects of the brokers' version are checked, too; `sharelag explain` names those that a
    group's records show.

    Exits with 1 if a check fails; with --rights, if a sharelag command would fail; with
    --principal, if a consumer would. Below the table of rights are the commands that grant missing
    ones.
    """
    config = config_of(options) if names_cluster(options) else None
    if rights:
        if config is None:
            raise click.UsageError("--rights asks a cluster: add --bootstrap-server HOST:PORT.")
        if kafka_version is not None:
            raise click.UsageError("--rights ignores --kafka-version: remove one of them.")
        from sharelag.inputs import KafkaInput
        from sharelag.workbench.rights import rights_of

        supers = None  # Kafka separates principals with semicolons
        if super_users is not None:
            supers = [one.strip() for one in super_users.split(";") if one.strip()]
        found = rights_of(KafkaInput(config), group, topic, principal, supers)
        return _rights(found, output, principal is not None)
    if ignored := given_options(("group", "topic", "principal", "super_users", "output")):
        raise click.UsageError(f"{flags(ignored)} only with --rights: add it, or remove them.")
    made: Iterable[Check] = checks(config, kafka_version)
    if not sys.stdout.isatty():  # the reader of a pipe may close it early
        made = [*made]
        Call.will_end(int(any(check.verdict == "fail" for check in made)))
    worst = 0
    for check in made:
        advice = f"\n      -> {check.advice}" if check.advice else ""
        write([f"{check.verdict:<5} {check.what}: {check.found}{advice}"])
        worst = max(worst, check.verdict == "fail")
    return int(worst)


def _rights(found: tuple[Any, tuple[str, ...]], output: str, is_somebody: bool) -> int:
    from sharelag.metrics.rights import CONSUMERS, failing, failing_of_ours, grants
    from sharelag.tables.views import RIGHTS
    from sharelag.workbench.rights import in_words

    table, unknown = found
    rows = plain(table)
    if output == "human":  # omit rights that no command needs
        rows = [row for row in rows if row["needed_by"] or row["used_by"]]
    fails = CONSUMERS in failing(table) if is_somebody else bool(failing_of_ours(table))
    status = Call.will_end(int(fails))
    print_rows(rows, output, RIGHTS.without("grant").columns)
    if output == "human":
        commands = grants(table, of_consumers=is_somebody)
        write(["", *map(terminal, commands)] if commands else [])
    tell(*in_words(table, is_somebody))
    note(unknown)
    return status


def checks(config: ClientConfig | None = None, kafka_version: str | None = None) -> Iterator[Check]:
    """Yield the checks of this machine and, with a configuration, of its cluster.

    Without ``kafka_version``, known defects are those of the release that a broker reports. Each
    check is yielded as soon as it is known; a failed one skips only those that depend on it.
    """
    java = _java()
    if java.verdict == "fail" and not _needs_java():
        advice = f"Spark on this machine would need Java {OLDEST_JAVA} or newer; nothing else does"
        java = java._replace(verdict="warn", advice=advice)
    yield java
    yield _spark()
    if kafka_version is not None:
        yield from _defects(kafka_version)
    if config is None:
        advice = "add --bootstrap-server HOST:PORT to check a cluster"
        yield Check("warn", "cluster", "not checked", advice)
        return
    from sharelag.inputs.kafka import topics as kafka
    from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

    reached = _ask(
        "broker", lambda: f"cluster {kafka.cluster_id(config)} at {config.bootstrap_servers}"
    )
    yield reached
    if reached.verdict == "fail":
        return
    yield from _features(config, with_defects=kafka_version is None)
    for topic, without in (
        (STATE_TOPIC, "no lag can be computed"),
        (GROUP_TOPIC, "members, ages, rates and causes cannot be computed"),
    ):
        check = _readable(config, topic, without)
        yield check
        if topic == STATE_TOPIC and check.verdict == "ok":
            yield _ask("format", lambda: _formats(config))
    yield _ask("topics", lambda: f"{len(kafka.topic_ids(config))} visible, with their ids")


def _java() -> Check:
    java = find_java()
    advice = (
        f"install Java {OLDEST_JAVA} or newer (openjdk-17-jdk-headless); --engine local works "
        "without it"
    )
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"not found in JAVA_HOME, {home}" if home else "not found"
        return Check("fail", "java", where, advice)
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    printed = (answer.stderr + answer.stdout).strip()
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    if not found:
        return Check("fail", "java", f"{java} does not print its version", advice)
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)
    where = f"{found[1]} at {java}"
    if int(found[1]) < OLDEST_JAVA:
        return Check("fail", "java", where, advice)
    if "jdk.incubator.vector" not in listed.stdout:
        full = "install a full JDK: Spark needs all modules"
        return Check("fail", "java", f"{where}, trimmed", full)
    return Check("ok", "java", where)


def _needs_java() -> bool:
    """Return whether Spark would start here: pyspark is complete, and no remote Spark is set."""
    is_elsewhere = os.environ.get("SPARK_REMOTE", "").startswith("sc:")
    return _find_installed("pyspark") is not None and not is_elsewhere


def _find_installed(package: str) -> str | None:
    try:
        return version(package)
    except ImportError:
        return None


def _spark() -> Check:
    found = _find_installed("pyspark") or _find_installed("pyspark-client")
    if found is None:
        advice = (
            "pip install 'sharelag[spark]', or 'sharelag[connect]' for Spark Connect; --engine "
            "local works without it"
        )
        return Check("warn", "spark", "pyspark is not installed", advice)
    remote = os.environ.get("SPARK_REMOTE", "").partition("/;")[0]  # the rest may contain a token
    how = f", through Spark Connect at {remote} (SPARK_REMOTE)" if remote else ""
    return Check("ok", "spark", f"{found}{how}")


def _features(config: ClientConfig, with_defects: bool = True) -> Iterator[Check]:
    from sharelag.inputs.kafka.brokers import broker_features

    try:
        found = broker_features(config)
    except ShareLagError as error:
        yield Check("warn", "kafka version", "unknown", str(error))
        return
    what = "kafka version"
    level = f"metadata.version {found.finalized.get('metadata.version', '?')}"
    if not found.has_share_state:
        yield Check("fail", what, f"{level}, without share groups", "Kafka 4.0 or newer is needed")
    elif not found.has_complete_count:
        advice = "lag stays unknown until brokers are 4.2 or newer"
        yield Check("warn", what, f"{level}, before 4.2", advice)
    else:
        written = "4.2 or newer: the delivery complete count is written"
        yield Check("ok", what, f"{level}, {written}")
    on = found.share_version >= 1
    advice = "turn share groups on: kafka-features.sh upgrade --feature share.version=1"
    verdict = "ok" if on else "fail"
    yield Check(verdict, "share.version", str(found.share_version), "" if on else advice)
    if not with_defects:
        return
    if found.release is not None:
        yield from _defects(found.release)
    elif "metadata.version" in found.supported:
        yield _unknown_defects("the brokers are newer")


def _unknown_defects(why: str) -> Check:
    from sharelag.model.defects import FIRST

    found = f"unknown: {why} than the releases whose defects are known, {FIRST} to {NEWEST}"
    advice = "use a newer sharelag, or name a version with --kafka-version"
    if why.endswith("older"):
        advice = "upgrade the brokers, as share groups are only early access in 4.0"
    return Check("warn", "known defects", found, advice)


def _defects(kafka_version: str) -> Iterator[Check]:
    """Yield known defects of a version, or of a release, of which some patches may have them."""
    from sharelag.model.defects import known_defects

    there = known_defects(kafka_version)
    if there is None:
        how = "newer" if has_reached(kafka_version, NEWEST) else "older"
        yield _unknown_defects(f"Kafka {kafka_version} is {how}")
        return
    if not there:
        yield Check("ok", "known defects", f"none in share groups of Kafka {kafka_version}")
    for defect, is_certain in there:
        where = f"Kafka {kafka_version}" if is_certain else f"some versions of {kafka_version}"
        advice = f"{defect.advice}; fixed in {defect.fixed_in} ({defect.url})"
        yield Check("warn", f"defect {defect.issue}", f"{where}: {defect.effect}", advice)


def _readable(config: ClientConfig, topic: str, without: str) -> Check:
    """Fetch one record, because permission to describe does not imply permission to read."""
    from sharelag.inputs.kafka import topics as kafka

    def one_record() -> str:
        spans = kafka.offset_ranges(config, topic)
        some = {p: (end - 1, end) for p, (first, end) in spans.items() if end > first}
        for _ in kafka.read_topic(config, topic, dict(list(some.items())[:1])):
            break
        offsets = sum(end - first for first, end in spans.values())
        return f"{pluralize(len(spans), 'partition')}, {pluralize(offsets, 'offset')}, readable"

    check = _ask(topic, one_record)
    return check._replace(found=f"{check.found}: {without}") if check.verdict == "fail" else check


def _formats(config: ClientConfig) -> str:
    """Return the format generations in use, from the ends of each state partition."""
    import pyarrow as pa

    from sharelag import schemas
    from sharelag.inputs.kafka import topics as kafka
    from sharelag.metrics.health import formats, gather, health_arrow
    from sharelag.wire.fields import STATE_TOPIC

    spans = kafka.offset_ranges(config, STATE_TOPIC)
    some = {p: span for p, span in spans.items() if span[1] > span[0]}
    if not some:
        return "unknown: there are no records"
    # Brokers prune up to the oldest required snapshot, so the first record is the oldest relevant
    # one. The last records show the current format; some may be tombstones.
    ends = (
        {p: (first, first + 1) for p, (first, _) in some.items()},
        {p: (max(first, end - _LATEST), end) for p, (first, end) in some.items()},
    )
    batches = [batch for two in ends for batch in kafka.read_topic(config, STATE_TOPIC, two)]
    # Decode them together: other records disambiguate one that fits two generations.
    found = formats(health_arrow(gather([pa.Table.from_batches(batches, schemas.RAW)])))
    return f"{found}, by the first and the last {_LATEST} records of each state partition"


def _ask(what: str, question: Callable[[], str]) -> Check:
    try:
        return Check("ok", what, question())
    except ShareLagError as error:
        found, _, advice = str(error).rpartition(": ")
        return Check("fail", what, found or advice, advice if found else "")
