"""Texts that Windows wrote are read like others: by every reader of files that people give."""

import codecs
import json
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from sharelag.inputs.files.printed import read_printed_offsets
from sharelag.inputs.files.request_log import ConsumedLog
from sharelag.inputs.files.text_pieces import line_blocks, pieces_of
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.kafka.described import parse_offsets
from sharelag.inputs.measured import read_metrics
from sharelag.monitoring.checks.rules import read_rules
from sharelag.whatif import named, to_json
from tests.support.command import ask, refused
from tests.support.command import sharelag as command

TEXTS = Path(__file__).parents[2] / "data" / "texts"
ROOT = Path(__file__).parents[3]
LIST = "billing\norders-eu\n"
STATES = """
GROUP           COORDINATOR (ID)          STATE           #MEMBERS
billing         localhost:9092  (1)       Stable          2
b\u00fccher          localhost:9092  (1)       Empty           0
"""
MEMBERS = """
GROUP           CONSUMER-ID            HOST            CLIENT-ID       #PARTITIONS  MEMBER-EPOCH  ASSIGNMENT
billing         2FsTHSlGR563E5x9o6RlMQ /127.0.0.1      idle            2            5             o:0,1
"""
OFFSETS = """
GROUP           TOPIC           PARTITION  START-OFFSET  LAG
billing         o               0          2             7
billing         o               1          -             -
"""
TYPES = "GROUP                TYPE                 PROTOCOL\nbilling              Share                share\n"
#: How Windows writes a text; the beginning of a line is where programs that join files leave marks.
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "lines of Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "UTF-8 with a mark": lambda text: text.replace("\n", "\r\n").encode("utf-8-sig"),
    "UTF-16 LE": lambda text: codecs.BOM_UTF16_LE + text.replace("\n", "\r\n").encode("utf-16-le"),
    "UTF-16 BE": lambda text: codecs.BOM_UTF16_BE + text.replace("\n", "\r\n").encode("utf-16-be"),
    "UTF-16 LE, no mark": lambda text: text.replace("\n", "\r\n").encode("utf-16-le"),
    "UTF-16 BE, no mark": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: codecs.BOM_UTF32_LE + text.encode("utf-32-le"),
    "joined": lambda text: "".join(f"\ufeff{line}" for line in text.splitlines(True)).encode(),
}
encodings = pytest.mark.parametrize("encoding", ENCODINGS)


def rewritten(folder: Path, text: str, encoding: str, name: str = "w.txt") -> Path:
    path = folder / name
    path.write_bytes(ENCODINGS[encoding](text))
    return path


#: Each text once, and each encoding: a file is decoded before anybody looks at what it says.
PRINTED = [(STATES, one) for one in ENCODINGS]
PRINTED += [(one, "UTF-16 LE") for one in (LIST, MEMBERS, OFFSETS, TYPES, STATES + MEMBERS)]


@pytest.mark.parametrize(("text", "encoding"), PRINTED)
def test_any_encoding_of_kafkas_command(text: str, encoding: str, tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text(text, "utf-8")
    path = rewritten(tmp_path, text, encoding)
    for name in ("groups", "members"):
        rows = ask(name, "--kafka-output", str(path))
        assert rows == ask(name, "--kafka-output", str(plain))
    assert {row["group_id"] for row in ask("groups", "--kafka-output", str(path))} >= {"billing"}


@pytest.mark.parametrize("kind", ["", ".bom", ".u16"])
def test_what_powershell_redirected(kind: str) -> None:
    listed = ask("groups", "--kafka-output", str(TEXTS / f"list{kind}.txt"))
    assert [row["group_id"] for row in listed] == ["billing", "orders-eu"]
    (row,) = ask("groups", "--kafka-output", str(TEXTS / f"state{kind}.txt"))
    assert (row["group_id"], row["state"], row["members"]) == ("billing", "Stable", 2)
    offsets = [row["offset"] for row in ask("consumed", str(TEXTS / f"kcons{kind}.txt"))]
    assert offsets == [12, 13]
    if kind != ".bom":
        raw = str(TEXTS / f"rec{kind}.json")
        (window,) = ask("windows", "--engine", "local", "--raw", raw)
        assert (window["group_id"], window["partition"]) == ("poison", 1)


@encodings
def test_what_consumers_printed(encoding: str, tmp_path: Path) -> None:
    lines = [f"Partition:0\tOffset:{n}\tDelivery:1\tv\u00e4lue {n}\n" for n in range(300)]
    path = rewritten(tmp_path, "".join(lines), encoding)
    found = ConsumedLog(path).tables["deliveries"].column("offset").to_pylist()
    assert found == list(range(300))
    pieces = list(pieces_of(path, 1_000, path))
    blocks = [block for piece in pieces for block in line_blocks(piece)]
    assert sum(len(block.lines) for block in blocks) == 300


@encodings
def test_records_that_were_printed(encoding: str, tmp_path: Path) -> None:
    text = (TEXTS / "rec.json").read_text("utf-8")
    found, same = (
        ask("windows", "--engine", "local", "--raw", str(path))
        for path in (rewritten(tmp_path, text, encoding, "rec.json"), TEXTS / "rec.json")
    )
    assert found == same


@encodings
def test_described_offsets_beside_a_capture(encoding: str, tmp_path: Path) -> None:
    text = OFFSETS.replace("billing", "crowd  ")
    plain = tmp_path / "plain.txt"
    plain.write_text(text)
    found, same = (
        ask("reconcile", "--capture", "chapters", "--described", str(path))
        for path in (rewritten(tmp_path, text, encoding), plain)
    )
    assert found == same


@encodings
def test_settings_rules_scenarios_metrics_and_offsets(encoding: str, tmp_path: Path) -> None:
    rules = ROOT / "data" / "examples" / "rules.yaml"
    assert read_rules(rewritten(tmp_path, rules.read_text("utf-8"), encoding)) == read_rules(rules)
    config = "security.protocol=PLAINTEXT\nclient.id=desk\n"
    settings = client_config("b:1", rewritten(tmp_path, config, encoding))
    assert settings.settings["client.id"] == "desk"
    consumer = rewritten(tmp_path, "group.id=x\nbootstrap.servers=b:1\n", encoding)
    assert ask("settings", "--consumer-config", str(consumer)) == []
    offsets = read_printed_offsets(rewritten(tmp_path, "orders:0:5\norders:1:7\n", encoding))
    assert offsets.column("offset").to_pylist() == [5, 7]
    scenario = rewritten(tmp_path, to_json(named("walk")), encoding, "s.json")
    assert command("simulate", "--scenario", str(scenario), "--show-scenario").returncode == 0
    for metrics in sorted((TEXTS.parent / "metrics").glob("*.prom"))[:1]:
        path = rewritten(tmp_path, metrics.read_text("utf-8"), encoding)
        assert read_metrics([str(path)]).num_rows == read_metrics([str(metrics)]).num_rows


def test_properties_stay_iso_8859_1_as_java_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes("client.id=b\u00fccher\n".encode("iso-8859-1"))
    assert client_config("b:1", path).settings["client.id"] == "b\u00fccher"


#: What stands beside the output of a command where both streams, or a session, were kept.
BESIDE = [
    "SLF4J: Class path contains multiple SLF4J bindings.",
    "[2026-11-21 10:00:00,123] WARN The configuration is not known (o.a.k.c.admin)",
    "2026-11-21T10:00:00.123Z INFO Kafka version: 4.4.0",
    "Picked up JAVA_TOOL_OPTIONS: -Xmx1g",
    "OpenJDK 64-Bit Server VM warning: Sharing is only supported for boot loader classes",
    'Defaulted container "kafka" out of: kafka, init (init)',
    "PS C:\\kafka> .\\bin\\windows\\kafka-share-groups.bat --bootstrap-server b:1 --list",
    "$ kafka-share-groups.sh --bootstrap-server b:1 --list",
    "C:\\kafka>bin\\windows\\kafka-groups.bat --list",
    "ops@bastion:~$",
    "ops@bastion:~$ kubectl get pods",
    "[root@kafka-0 kafka]# exit",
    "I have no name!@kafka-0:/$ ",
    "(venv) ops@mac ~ % ",
    "$",
    "# ",
    "> exit",
    "/ #",
    "~/kafka $ ls",
    "sh-5.1$ exit",
    "bash-5.1# ",
    "kafka-consumer-groups.sh --bootstrap-server b:1 --list",
    "command terminated with exit code 1",
    "Connection to bastion closed.",
]


@pytest.mark.parametrize(
    ("line", "text"), [*zip(BESIDE, cycle([LIST, STATES, OFFSETS]), strict=False)]
)
def test_lines_of_other_programs_are_counted(line: str, text: str, tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text(text, "utf-8")
    path = tmp_path / "both.txt"
    path.write_text(f"{line}\n{text}{line}\n", "utf-8")
    names = [row["group_id"] for row in ask("groups", "--kafka-output", str(path))]
    assert names == [row["group_id"] for row in ask("groups", "--kafka-output", str(plain))]
    said = command("groups", "--kafka-output", str(path)).stderr
    assert "2 lines that the command does not print, such as " in said
    assert line[:10].replace("\\", "\\\\") in said


NAMES = ("ops@bastion", "$billing", "#1", "a # b", "100%", "STATE", "/opt/app", "kafka-groups")


@pytest.mark.parametrize("name", [*NAMES, "a;b;c"])
def test_a_name_like_a_prompt_or_a_heading_is_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{name}\n", "utf-8")
    assert [row["group_id"] for row in ask("groups", "--kafka-output", str(path))] == [name]
    header = "GROUP".ljust(16) + "STATE"
    path.write_text(f"{header}\n{name.ljust(16)}Stable\n", "utf-8")
    (row,) = ask("groups", "--kafka-output", str(path))
    assert (row["group_id"], row["state"]) == (name, "Stable")


@pytest.mark.parametrize(
    "line",
    [
        *('{"name":"startup_complete"}', "There are no groups.", "<html>", "billing\0"),
        *("Timed out: nothing", "gr\ufffdn", "[main] thread"),
    ],
)
def test_what_cannot_be_a_name_is_no_group(line: str, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"billing\n{line}\n", "utf-8")
    (row,) = ask("groups", "--kafka-output", str(path))
    assert row["group_id"] == "billing"
    done = command("groups", "--kafka-output", str(path))
    assert "1 line that the command does not print" in done.stderr
    path.write_text(f"{line}\n", "utf-8")
    alone = refused("groups", "--kafka-output", str(path))
    assert (alone.count("\n"), alone.count("\0")) == (1, 0)


def test_deliveries_that_could_not_be_read_are_not_none(tmp_path: Path) -> None:
    path = tmp_path / "console.txt"
    good = "".join(f"Partition:0\tOffset:{n}\tDelivery:1\tv\n" for n in range(10))
    path.write_text(good + "Partition:0\tOffset:99999999999999999999\tDelivery:1\tv\n")
    assert {row["complete"] for row in ask("consumed", str(path), code=3)} == {False}
    path.write_text(good.replace("\t", "|"))
    assert "--separator" in refused("consumed", str(path))
    command("consumed", str(path), "--separator", "|", code=0)


STATE_HEADER = ["GROUP", "COORDINATOR (ID)", "STATE", "#MEMBERS"]
STATE_ROWS = [["billing", "localhost:9092  (1)", "Stable", "2"], ["a b", "", "Empty", "0"]]
OFFSET_HEADER = ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
OFFSET_ROWS = [["billing", "o", "0", "2", "7"], ["a b", "o", "1", "-", "-"]]


def test_an_indented_table(tmp_path: Path) -> None:
    def text_of(*rows: list[str]) -> str:
        return "\n".join("    " + "".join(cell.ljust(24) for cell in row) for row in rows)

    path = tmp_path / "pasted.txt"
    path.write_text(text_of(STATE_HEADER, *STATE_ROWS), "utf-8")
    rows = ask("groups", "--kafka-output", str(path))
    found = [(row["group_id"], row["state"], row["members"]) for row in rows]
    assert found == [("a b", "Empty", 0), ("billing", "Stable", 2)]
    text = text_of(OFFSET_HEADER, *OFFSET_ROWS)
    path.write_text(text, "utf-8")
    rows = ask("groups", "--kafka-output", str(path))
    lags = [(row["group_id"], row["lag"], row["unknown_lags"]) for row in rows]
    assert lags == [("a b", None, 1), ("billing", 7, 0)]
    described = parse_offsets(f"[2026-11-21 10:00:00,123] WARN no such setting\n{text}")
    assert described.column("group_id").to_pylist() == ["billing", "a b"]
    assert described.column("lag").to_pylist() == [7, None]


@pytest.mark.parametrize(
    "text",
    [
        "GROUP COORDINATOR (ID) STATE #MEMBERS\nbilling localhost:9092 (1) Stable 2",
        "GROUP\tCOORDINATOR (ID)\tSTATE\t#MEMBERS\nbilling\tlocalhost:9092  (1)\tStable",
        "| GROUP | STATE |\n|---|---|\n| billing | Stable |",
        "sep=;\nGROUP;STATE\nbilling;Stable",
        "GROUP;TOPIC;PARTITION;START-OFFSET;LAG\nbilling;o;0;2;7",
        "GROUP,TOPIC,PARTITION,START-OFFSET,LAG\nbilling,o,0,2,1,234",
        "GROUP  TOPIC  PARTITION  START-OFFSET  LAG\nbilling  o  0  2  1.234",
        "GROUP  STATE  COORDINATOR (ID)  #MEMBERS\nbilling  Stable  localhost:9092 (1)  2",
        "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG\nbilling  o  0  2  9  7",
        "GROUP  TYPE  PROTOCOL  STATE\nbilling  Share  share  Stable",
        "GROUP;TOPIC;PARTITION;CURRENT-OFFSET;LOG-END-OFFSET;LAG\nbilling;o;0;2;9;7",
        "GROUP,COORDINATOR (ID),ASSIGNMENT-STRATEGY,STATE,#MEMBERS\nbilling,b:1 (1),x,Stable,2",
        "GROUP~COORDINATOR (ID)~STATE~#MEMBERS\nbilling~b:9092 (1)~Stable~2",
        "GROUP;COORDINATOR (ID);STATE;#MEMBERS\nbilling;b:9092 (1);Stable",
        "STATE;GROUP\nStable;billing",
        "  Cluster | Consumer Group | State\n----------+--------+-----\n lkc-1 | billing | STABLE",
        "bash: kafka-share-groups.sh: command not found",
        "'kafka-share-groups.bat' is not recognized as an internal or external command,",
        'error: unable to upgrade connection: container not found ("kafka")',
        "Consumer group 'billing' has no active members.",
        "\u200bbilling",
        "billing\u00a0",
        "billing\t",
    ],
)
def test_a_table_of_unknown_header_and_columns_is_no_answer(text: str, tmp_path: Path) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(f"{text}\n", "utf-8")
    said = refused("groups", "--kafka-output", str(path))
    assert said.count("\n") == 1
    assert "with its headers" in said.lower()


_RECORDS = (TEXTS / "rec.json").read_text("utf-8").splitlines()
_LOG = "[2026-11-21 10:00:00,123] WARN no such setting (o.a.k.c.admin)"
#: The records of a console consumer, as people keep them.
KEPT: dict[str, Callable[[list[str]], str]] = {
    "beside a log": lambda lines: "\n".join(
        ["SLF4J: many bindings", _LOG, *lines, "Picked up JAVA_TOOL_OPTIONS: -Xmx1g",
         "Processed a total of 4 messages", ""]
    ),
    "a list": lambda lines: "[" + ",".join(lines) + "]",
    "a list over lines": lambda lines: "[\n" + ",\n".join(lines) + "\n]\n",
    "over lines": lambda lines: "\n".join(json.dumps(json.loads(one), indent=2) for one in lines),
    "without line feeds": "".join,
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_records_that_were_printed_and_kept(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rec.json"
    path.write_text(KEPT[name](_RECORDS), "utf-8")
    done = command("windows", "--engine", "local", "--raw", str(path), "-o", "json")
    same = command("windows", "--engine", "local", "--raw", str(TEXTS / "rec.json"), "-o", "json")
    assert (done.returncode, done.stdout) == (0, same.stdout), done.stderr
    assert "could not be decoded" not in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        '[{"group": "billing"}]',
        '{"topic":"__share_group_state","partition":3,"offset":5,"key":"AAAAAWcx","payload":"A"}',
        '{"log":"{\\"key\\":null}\\n","stream":"stdout","time":"2026-11-21T09:00:00Z"}',
        '{"key":{"version":0,"data":{"groupId":"g"}},"value":null}',
        f'{_LOG} {{"key": 1}}',
        "[g,orders,0]::OffsetAndMetadata(offset=7, leaderEpoch=Optional.empty, metadata=)",
        "topic,partition,offset,key,value\n__share_group_state,0,1,AAA=,AAA=",
        "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 123",
        "<html><body>Sign in</body></html>",
    ],
)
def test_what_no_formatter_prints_says_nothing_of_the_cluster(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rec.json"
    path.write_text(f"{text}\n", "utf-8")
    said = refused("windows", "--engine", "local", "--raw", str(path))
    assert said.count("\n") == 1
    assert str(path) in said
    assert "no share group" not in said


#: What consumers printed, as the files of container runtimes and collectors have it.
CONTAINED: dict[str, Callable[[str], str]] = {
    "CRI, cut": lambda line: (
        f"2026-11-21T09:00:00.1Z stdout P {line[:9]}\n2026-11-21T09:00:00.1Z stdout F {line[9:]}"
    ),
    "Docker": lambda line: json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "x"}),
    "Docker, cut": lambda line: "\n".join(
        json.dumps({"log": part, "stream": "stdout", "time": "x"})
        for part in (line[:9], f"{line[9:]}\n")
    ),
}


@pytest.mark.parametrize("name", CONTAINED)
def test_what_consumers_printed_in_a_container(name: str, tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    event = (
        '{"timestamp":1732000000000,"name":"offsets_acknowledged","partitions":[{"topic":"o",'
        '"partition":0,"offsets":[8,9]}],"success":false,"error":"<lost> & \\"gone\\""}'
    )
    lines = [f"Partition:0\tOffset:{n}\tDelivery:1\tv" for n in range(3)]
    path.write_text("".join(f"{CONTAINED[name](line)}\n" for line in [*lines, event]), "utf-8")
    log = ConsumedLog(path)
    assert log.tables["deliveries"].column("offset").to_pylist() == [0, 1, 2]
    assert log.tables["deliveries"].column("position").to_pylist()[0] == 0
    (outcome,) = log.tables["outcomes"].to_pylist()
    assert (outcome["first_offset"], outcome["error_message"]) == (8, '<lost> & "gone"')
    assert log.line_counts == (4, 0)
