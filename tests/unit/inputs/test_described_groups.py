"""What Kafka's commands print of groups and members is read back; anything else is an error."""

from pathlib import Path
from typing import Any

import pytest

from sharelag.errors import InputError
from sharelag.inputs.kafka.described import parse_groups
from tests.support.command import ask, refused, sharelag

#: As ``ShareGroupCommand`` of Kafka 4.3.1 printed it.
STATES = """
GROUP           COORDINATOR (ID)          STATE           GROUP-EPOCH  ASSIGNMENT-EPOCH  #MEMBERS
a b  c          127.0.0.1:33711  (1)      Stable          3            3                 1

GROUP           COORDINATOR (ID)          STATE           GROUP-EPOCH  ASSIGNMENT-EPOCH  #MEMBERS
crowd           127.0.0.1:33711  (1)      Stable          5            5                 3
"""
MEMBERS = """
GROUP           CONSUMER-ID            HOST            CLIENT-ID       #PARTITIONS  MEMBER-EPOCH  ASSIGNMENT
crowd           2FsTHSlGR563E5x9o6RlMQ /127.0.0.1      idle            0            5             
crowd           S0g2166bRmqJOm0LEKuv7g /127.0.0.1      c 1             2            5             o:1;r:1
crowd           XNmXnuEgQo+lBwOZ5dpSCQ /127.0.0.1      c2              3            5             o:0,2;r:0
"""  # noqa: W291
OFFSETS = """
GROUP           TOPIC           PARTITION  START-OFFSET  LAG
crowd           o               0          2             7
crowd           o               1          -             -
crowd           r               1          5             0

Share group 'none' has no offset information.
"""
LISTED = """GROUP           STATE
crowd           Stable
a b  c          Empty
"""
#: As ``GroupsCommand`` of Kafka 4.3.1 printed it.
TYPES = """GROUP                TYPE                 PROTOCOL            
classic              Classic              consumer             
crowd                Share                share                
"""  # noqa: W291
MORE_TYPES = {"usual": "Consumer", "jobs": "Jobs"}


def groups(text: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in parse_groups(text).groups.to_pylist()]


def given(folder: Path, text: str) -> tuple[str, str]:
    """The option by which a command reads this text."""
    (folder / "printed.txt").write_text(text, "utf-8")
    return "--kafka-output", str(folder / "printed.txt")


def printed(tmp_path: Path, text: str, *arguments: str) -> list[dict[str, Any]]:
    return ask(*arguments, *given(tmp_path, text))


@pytest.mark.row("CLI-06")
def test_each_description_is_read_and_together_they_make_one_row_a_group(tmp_path: Path) -> None:
    names = ("group_id", "state", "group_epoch", "members", "topics", "partitions", "lag")
    assert groups(STATES, *names[:4]) == [("a b  c", "Stable", 3, 1), ("crowd", "Stable", 5, 3)]
    assert groups(MEMBERS, *names[:4]) == [("crowd", None, None, 3)]
    # --describe without more is that of offsets.
    counted = groups(OFFSETS, "group_id", *names[4:], "unknown_lags")
    assert counted == [("crowd", 2, 3, 7, 1), ("none", 0, 0, None, 0)]
    (row,) = printed(tmp_path, STATES + MEMBERS + OFFSETS, "groups", "--group", "crowd")
    assert tuple(row[name] for name in names) == ("crowd", "Stable", 5, 3, 2, 3, 7)
    assert row["coordinator"] == "127.0.0.1:33711 (1)"


def test_members_are_read_with_their_assignment(tmp_path: Path) -> None:
    rows = printed(tmp_path, MEMBERS, "members")
    names = ("client_id", "client_host", "member_epoch", "assigned", "assignment")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("idle", "/127.0.0.1", 5, 0, ""),
        ("c 1", "/127.0.0.1", 5, 2, "o:1;r:1"),
        ("c2", "/127.0.0.1", 5, 3, "o:0,2;r:0"),
    ]
    assert {row["rack_id"] for row in rows} == {None}  # not printed


@pytest.mark.row("CLI-02")
def test_lists_are_read_with_states_types_or_names_alone(tmp_path: Path) -> None:
    assert groups(LISTED, "group_id", "state") == [("a b  c", "Empty"), ("crowd", "Stable")]
    assert groups(TYPES, "group_id", "type") == [("classic", "Classic"), ("crowd", "Share")]
    assert groups("crowd\na b\n", "group_id", "type") == [("a b", "Share"), ("crowd", "Share")]
    (row,) = printed(tmp_path, LISTED, "groups", "--state", "EMPTY")
    assert row["group_id"] == "a b  c"


@pytest.mark.row("FND-01")
def test_of_all_groups_those_of_the_type_share_have_lag(tmp_path: Path) -> None:
    more = [f"{name:<20} {kind:<20} {name:<20}\n" for name, kind in MORE_TYPES.items()]
    found = printed(tmp_path, TYPES + "".join(more), "groups")
    assert {row["group_id"]: row["type"] for row in found} == {
        "classic": "Classic",
        "crowd": "Share",
        **MORE_TYPES,  # a type that nobody knows is shown as it is
    }
    asked = {name: ask(name, "--capture", "chapters") for name in ("groups", "lag")}
    assert {row["type"] for row in asked["groups"]} == {"Share"}
    names = {row["group_id"] for row in asked["groups"]}
    assert {row["group_id"] for row in asked["lag"]} <= names


@pytest.mark.row("ADM-05")
def test_a_state_that_share_groups_do_not_have_is_unknown(tmp_path: Path) -> None:
    (_, row) = printed(tmp_path, STATES.replace("Stable          5", "Foo             5"), "groups")
    assert (row["state"], row["coordinator"]) == ("Unknown", "127.0.0.1:33711 (1)")


def test_java_counts_the_length_of_names_in_utf_16(tmp_path: Path) -> None:
    smiling = LISTED.replace("crowd  ", "\U0001f600\U0001f600\U0001f600 ")  # 6 units and a blank
    assert groups(smiling, "group_id", "state")[1] == ("\U0001f600\U0001f600\U0001f600", "Stable")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "Error: Executing share group command failed due to TimeoutException\n",
        STATES.replace("GROUP  ", "GRUPP  ", 1),  # the header is damaged
        "\n".join(STATES.split("\n")[2:4]),  # it is missing
        STATES.replace("5            5  ", "x            5  "),
        STATES.replace("5            5  ", "99999999999  5  "),
        STATES.replace("crowd  ", "crowd"),  # the columns have moved
        MEMBERS.replace("o:1;r:1", "o:1;r"),  # cut within an assignment
        MEMBERS.replace("o:1;r:1", "o:1"),
        MEMBERS.replace("crowd           XN", "crowd"),
        OFFSETS.replace("          7", "          x"),
        STATES + "Error: the broker is gone\n",
        "\x00\x01\x02\t\xff",
    ],
)
def test_other_text_is_an_error_that_says_what_to_give(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="headers"):
        parse_groups(text)
    assert refused("groups", *given(tmp_path, text)).count("\n") == 1


def test_members_that_were_not_printed_are_unknown_and_not_none(tmp_path: Path) -> None:
    def said(command: str, text: str, *arguments: str) -> str:
        return sharelag(command, *given(tmp_path, text), *arguments).stderr

    printed = "as Kafka's command printed them\n"
    for text, groups in ((LISTED, "2 groups"), (OFFSETS, "2 groups")):
        unknown = f"sharelag: not known: the members of {groups}: kafka-share-groups.sh"
        assert said("groups", text).startswith(f"sharelag: {groups}, {printed}{unknown}")
        members = f"sharelag: 0 members of {groups}, {printed}{unknown}"
        assert said("members", text).startswith(members)
    counts = parse_groups(STATES).groups.column("members").to_pylist()
    whole = f"{len(counts)} groups, {sum(counts)} members, {printed}"
    assert said("groups", STATES) == f"sharelag: {whole}"
    assert said("groups", STATES, "--state", "Dead") == f"sharelag: 0 groups, 0 members, {printed}"
    assert "not known" not in said("members", MEMBERS)


def test_a_name_with_line_feeds_is_the_name_of_one_group() -> None:
    """As Kafka's command prints it: the row goes on in the next line."""
    for name in ("a\nb  c", "a\n\n c"):
        padded = name.ljust(16)
        read = groups(STATES.replace("a b  c          ", padded), "group_id", "members")
        assert read == sorted([(name, 1), ("crowd", 3)])
        found = parse_groups(MEMBERS.replace("crowd           XN", f"{padded}XN"))
        assert found.members.column("group_id").to_pylist() == sorted([name, "crowd", "crowd"])


def test_hostile_names_are_escaped_on_a_terminal(tmp_path: Path) -> None:
    hostile = given(tmp_path, LISTED.replace("a b  c ", "\x1b[31mX "))
    shown = sharelag("groups", *hostile).stdout
    assert "\x1b" not in shown
    assert "[31mX" in shown


def is_read(text: str) -> bool:
    """Return whether it is read; an error that is not the user's would fail the test."""
    try:
        return len(parse_groups(text).groups) > 0
    except InputError:
        return False


def test_a_text_that_is_cut_anywhere_is_read_or_an_error() -> None:
    text = STATES + MEMBERS + OFFSETS
    assert {is_read(text[:end]) for end in range(len(text))} == {True, False}
    within = text.index("Stable          5")
    assert not is_read(text[:within])


def test_options_of_an_input_do_not_go_with_it(tmp_path: Path) -> None:
    text = given(tmp_path, LISTED)
    for option in (["--capture", "chapters"], ["--as-of", "0:1"], ["--engine", "local"]):
        said = refused("groups", *text, *option, code=2)
        assert f"--kafka-output ignores {option[0]}: remove one of them" in said
    refused("members", *text, "--group", "nobody")
