"""What we know of each release of Kafka is what its jars say, its defects included."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sharelag.cli.doctor import checks
from sharelag.inputs.kafka.config import client_config
from sharelag.model import DeliveryState
from sharelag.model.defects import DEFECTS
from sharelag.model.kafka_commands import CONSOLE, SHARE_GROUPS
from sharelag.model.settings import Setting, catalogue
from sharelag.model.settings.catalogue import CONSUMER
from sharelag.model.versions import has_reached, release_of
from sharelag.wire import GROUP_KINDS, STATE_KINDS, messages
from sharelag.wire.fields import Field, RecordKind
from sharelag.wire.generations import layout_of
from sharelag.wire.messages import SHARE_APIS
from tests.support.command import ask
from tests.support.kafka.broker import SHARE_GROUPS as GROUPS_COMMAND
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import COMPARED, KAFKA_VERSION
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.since import SHARE_CONSUMERS, since
from tests.support.kafka.workload import read_in_part, wait_until
from tools import releases_page
from tools.releases import RELEASES, Printed, Release

FIRST = RELEASES[0]
#: Kafka's records of share groups that only 4.0 has, and those of its that we reject.
OLD = {"ShareGroupPartitionMetadata"}
REJECTED = {"ShareGroupMetadata", "ShareGroupStatePartitionMetadata"}
KINDS = {"int": "int", "short": "short", "boolean": "bool", "string": "text", "list": "list"}
#: Jars of a release do not change: in each run the newest one is read.
BY_NEWEST = [
    pytest.param(one, id=one.name, marks=[pytest.mark.exhaustive] * (one != RELEASES[-1]))
    for one in RELEASES
]
every = pytest.mark.parametrize("release", BY_NEWEST)
later = pytest.mark.parametrize("release", BY_NEWEST[1:])
TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
KEY = {"g": "G1", "t": TOPIC, "p": 0}
#: Types of records; the error of a coordinator that refuses an earlier epoch.
SNAPSHOT, EPOCH_OF_GROUP = 0, 11
FENCED_STATE_EPOCH = 124

#: A broker of an earlier version takes longer to start than the others' tests here.
OLDER_FIRST = [
    pytest.param(one, marks=[] if one == KAFKA_VERSION else pytest.mark.exhaustive)
    for one in COMPARED
]
HAS_CLASSES = since("4.2", "the share coordinator has the classes that we ask")


@pytest.mark.exhaustive  # jars of a release do not change
def test_the_page_is_what_the_jars_say() -> None:
    page = releases_page.PAGE.read_text("utf-8")
    assert page == releases_page.written(page), "python -m tools.releases_page"


def ours(given: tuple[Field, ...], release: Release, within: str = "") -> list[str]:
    """The fields of a record that a release has, as the page writes Kafka's."""
    found = []
    for field in given:
        if has_reached(release.version, field.since):
            tag = "" if field.tag is None else f", tag {field.tag}"
            found.append(f"{within}{field.name} {field.type}{tag}")
            found += ours(field.fields, release, f"{field.name}.")
    return found


def differing(release: Release, kinds: tuple[RecordKind, ...]) -> set[str]:
    """The kinds of records that we write in another way than a release does."""
    found = set()
    for kind in kinds:
        key = releases_page.fields(release, f"{kind.name}Key")
        assert key == ours(kind.key, release)
        schema = release.messages[f"{kind.name}Key"]
        number = schema["apiKey"] if release is not FIRST else int(schema["validVersions"])
        assert number == kind.type
        # A tagged field is where it is declared, and written last.
        value = releases_page.fields(release, f"{kind.name}Value")
        found |= {kind.name} if sorted(value) != sorted(ours(kind.value, release)) else set()
    return found


@later
def test_records_have_kafkas_fields(release: Release) -> None:
    kinds = (*STATE_KINDS, *GROUP_KINDS)
    assert differing(release, kinds) == set()
    theirs = {name.removesuffix("Value") for name in release.messages if name.endswith("Value")}
    assert theirs == {kind.name for kind in kinds}


def test_records_of_the_first_release_are_an_older_generation_or_rejects() -> None:
    assert differing(FIRST, tuple(layout_of(3, kind.type).kind for kind in STATE_KINDS)) == set()
    assert differing(FIRST, GROUP_KINDS) == REJECTED
    theirs = {name.removesuffix("Value") for name in FIRST.messages if name.endswith("Value")}
    assert theirs == {kind.name for kind in (*STATE_KINDS, *GROUP_KINDS)} | OLD


@later
def test_settings_are_kafkas(release: Release) -> None:
    profile = "4.3.1" if release.name == "4.3" else release.name
    mine = {(one.scope, one.name): one for one in catalogue(profile) if not one.internal}
    theirs = {
        (scope, name): printed
        for scope in ("broker", "group", "topic")
        for name, printed in release.printed(f"{scope}s").items()
        if releases_page.SETTING.fullmatch(name)
    }
    assert mine.keys() == theirs.keys()
    for key, setting in mine.items():
        assert as_printed(setting, theirs[key]) == theirs[key], key


def as_printed(setting: Setting, theirs: Printed) -> Printed:
    """A setting as Kafka prints it; words in brackets are a duration in words, and the choices."""
    text = setting.default
    words = ",".join(text) if isinstance(text, tuple) else str(text)
    words = words.lower() if isinstance(text, bool) else words or '""'
    default = re.sub(r" \([^)]*\)$", "", theirs.default)
    most = "" if setting.greatest is None else f",{setting.greatest}"
    valid = "" if setting.least is None else f"[{setting.least},...{most}]"
    # Kafka checks this one by its own code.
    is_range = setting.kind in ("int", "short") and not setting.name.endswith("compression.codec")
    kind = next(kafkas for kafkas, mine in KINDS.items() if mine == setting.kind)
    said = theirs.default if words == default else words
    return Printed(kind, said, valid if is_range else theirs.valid)


@every
def test_options_are_kafkas(release: Release) -> None:
    groups, console = (tool.of_version(release.version) for tool in (SHARE_GROUPS, CONSOLE))
    assert groups.options == release.options("share groups")
    assert console.options == release.options("console")
    assert groups.defaults["timeout"] == release.default_of("share groups", "timeout")


@every
def test_a_release_is_known_by_its_metadata_version(release: Release) -> None:
    level, name = release.features["metadata.version"].split()
    assert release_of(int(level)) == release.name
    assert name.startswith(f"({release.name}-IV")


@every
def test_states_are_kafkas(release: Release) -> None:
    theirs = releases_page.states(release)
    assert [state.name.title() for state in DeliveryState if state.name.title() in theirs] == theirs


@later
def test_properties_of_consumers_are_kafkas(release: Release) -> None:
    theirs = release.printed("consumers")
    mine = {name: one for name, one in CONSUMER.items() if has_reached(release.version, one.since)}
    assert {name for name in mine if not name.startswith("internal.")} == theirs.keys()
    for name, printed in theirs.items():
        assert mine[name].kind == printed.kind, name
        choices = printed.valid.partition("[")[2].rstrip("]").split(", ")
        assert not mine[name].choices or set(mine[name].choices) == set(choices), name


# ---- the schemas of requests that the package ships, against those that Kafka's own jar has ------
@since("4.4", "the version whose schemas are shipped")
def test_schemas_are_those_of_kafka(kafka_jars: Path) -> None:
    shipped = sorted(Path(messages.__file__).parent.glob("*.json"))
    assert shipped
    with zipfile.ZipFile(next(kafka_jars.glob("kafka-clients-*.jar"))) as jar:
        for path in shipped:
            assert path.read_bytes() == jar.read(f"common/message/{path.name}"), path.name


def test_no_request_about_share_groups_is_left_out(kafka_jars: Path) -> None:
    with zipfile.ZipFile(next(kafka_jars.glob("kafka-clients-*.jar"))) as jar:
        names = {Path(name).stem for name in jar.namelist() if name.endswith("Request.json")}
    shared = {name.removesuffix("Request") for name in names if "Share" in name}
    assert shared == set(SHARE_APIS.values())


@pytest.fixture(scope="module", params=[pytest.param(one, marks=HAS_CLASSES) for one in COMPARED])
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle("CoordinatorOracle", version=request.param) as oracle:
        yield oracle


def affects(issue: str, version: str) -> bool | None:
    (defect,) = [one for one in DEFECTS if one.issue == issue]
    return defect.affects(version)


def write(start: int, count: int) -> dict[str, Any]:
    given = {"leaderEpoch": 1, "stateEpoch": 1, "startOffset": start, "dcc": count, "batches": []}
    return {"op": "write", **KEY} | given


def summary(oracle: Oracle, *operations: dict[str, Any]) -> dict[str, Any]:
    """What the coordinator answers a leader after these requests."""
    begin = {"op": "init", **KEY, "stateEpoch": 1, "startOffset": 0}
    asked = [begin, *operations, {"op": "summary", **KEY}]
    results = oracle.ask({"topics": {TOPIC: 1}, "ops": asked})["results"]
    assert not [one for one in results if one.get("error")]
    answer: dict[str, Any] = results[-1]["answer"]
    return answer


def test_writes_out_of_order_move_back_what_the_table_says(oracle: Oracle) -> None:
    late = summary(oracle, write(20, 0), write(10, 0))
    assert (late["startOffset"] < 20) is affects("apache/kafka#23074", oracle.version)
    fewer = summary(oracle, write(0, 5), write(0, 2))
    assert (fewer["deliveryCompleteCount"] < 5) is affects("apache/kafka#23112", oracle.version)


def test_a_second_initialisation_and_a_reset(oracle: Oracle) -> None:
    again = {"op": "init", **KEY, "stateEpoch": 1, "startOffset": 0}
    twice = summary(oracle, write(20, 0), again)
    assert (twice["startOffset"] < 20) is affects("apache/kafka#23190", oracle.version)
    reset = {"op": "init", **KEY, "stateEpoch": 2, "startOffset": 7}
    unknown = summary(oracle, write(20, 0), reset)["deliveryCompleteCount"] < 0
    assert unknown is affects("KAFKA-20034", oracle.version)


@pytest.fixture(scope="module", params=OLDER_FIRST)
def of_version(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    if request.param == KAFKA_VERSION:
        yield request.getfixturevalue("broker")
    else:
        with KafkaBroker(version=request.param) as older:
            yield older


def test_the_doctor_asks_the_brokers_for_their_release(of_version: KafkaBroker) -> None:
    said = {one.what: one for one in checks(client_config(of_version.bootstrap_servers))}
    release = of_version.version.rpartition(".")[0]
    expected = {
        f"defect {one.issue}": (
            f"Kafka {release}: " if one.affects(release) else f"some versions of {release}: "
        )
        for one in DEFECTS
        if one.affects(release) is not False
    }
    assert expected
    found = {what: one.found for what, one in said.items() if what.startswith("defect ")}
    told = {what: found[what].startswith(begin) for what, begin in expected.items()}
    assert told == dict.fromkeys(found, True)


def test_what_comes_late_is_refused_only_where_a_reset_raised_the_epoch(oracle: Oracle) -> None:
    """A reset without a new epoch (KAFKA-20910) leaves an initialisation of before it valid."""

    def late(epoch: int) -> dict[str, Any]:
        begin = {"op": "init", **KEY, "startOffset": 0, "stateEpoch": 1}
        reset = {"op": "init", **KEY, "startOffset": 7, "stateEpoch": epoch}
        question = {"topics": {TOPIC: 1}, "ops": [begin, reset, begin, {"op": "summary", **KEY}]}
        *_, again, last = oracle.ask(question)["results"]
        return {"error": again["error"], "start": last["answer"]["startOffset"]}

    assert late(2) == {"error": FENCED_STATE_EPOCH, "start": 7}
    assert late(1) == {"error": 0, "start": 0}


@SHARE_CONSUMERS
def test_a_reset_leaves_the_epoch_of_the_group(of_version: KafkaBroker) -> None:
    group, topic, servers = "defect-reset", "of-defect-resets", of_version.bootstrap_servers

    def told(records: str, kind: int, name: str) -> list[int]:
        """What records of a type say, in the order of the log."""
        found = ask(f"decode --group {group} --records {records}", at=servers)
        return [one["value"]["data"][name] for one in found if one["key"]["type"] == kind]

    def command(*options: str) -> str:
        asked = ("--bootstrap-server", servers, "--group", group, *options)
        done = of_version.run_tool(GROUPS_COMMAND, *asked)
        assert done.returncode == 0, done.stderr
        return done.stdout

    read_in_part(servers, group, topic, read=10)
    wait_until(lambda: "Empty" in command("--describe", "--state"), "the member has left")
    before = told("group", EPOCH_OF_GROUP, "epoch")
    for _ in range(2):
        command("--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    has_raised = told("group", EPOCH_OF_GROUP, "epoch") != before
    assert has_raised is not affects("KAFKA-20910", of_version.version)
    *_, first, second = told("state", SNAPSHOT, "stateEpoch")
    assert (first < second) is has_raised
    assert first == before[-1]
