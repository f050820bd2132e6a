"""An anonymised capture gives the same answers by other names, and has none of the originals."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files.captures import anonymise, read_capture
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC, decode_arrow
from tests.support.captures import describe
from tests.support.cases import few_of
from tests.support.columns import with_column
from tests.support.command import refused
from tests.support.command import sharelag as sharelag_command

CAPTURES = Path(__file__).parents[3] / "data" / "captures"
NAMES = ("demo", "scenarios/window_full", "scenarios/idle_members", "scenarios/aborted")
#: A text that somebody has put where Kafka's readers do not look.
HIDDEN = b"ACME-payroll"


def original_names(folder: Path) -> set[str]:
    """Return all names of a capture, found by walking through whatever is nested."""
    capture = read_capture(folder)
    raw = pa.concat_tables(pq.read_table(path) for path in capture.records_paths)
    found: set[str] = set()
    for topic in (STATE_TOPIC, GROUP_TOPIC):
        part = raw.filter(pc.equal(raw.column("topic"), topic))
        found |= names_in(decode_arrow(part, topic).records.to_pylist())
    for name, table in {"offsets": capture.offsets, **capture.extras}.items():
        keys = {"entity"} if name == "settings" else set()
        found |= names_in(table.to_pylist(), keys)
    return found - {STATE_TOPIC, GROUP_TOPIC, ""} | {capture.info.cluster_id}


def names_in(value: Any, also: set[str] = frozenset(), key: str = "") -> set[str]:  # type: ignore[assignment]
    if isinstance(value, dict):
        return {name for k, v in value.items() for name in names_in(v, also, k)}
    if isinstance(value, list):
        return {name for each in value for name in names_in(each, also, key)}
    names = {"group_id", "member_id", "client_id", "client_host", "host", "rack_id", "rack"}
    names |= {"topic", "topic_name", "subscribed_topic_names", *also}
    return {value} if key in names and isinstance(value, str) else set()


def bytes_of(folder: Path) -> bytes:
    """Return every byte of a capture: of the files, and of their values decompressed."""
    out = bytearray()
    for path in sorted(folder.rglob("*")):
        out += str(path.relative_to(folder)).encode()
        if path.suffix == ".parquet":
            plain = pa.BufferOutputStream()
            table = pq.read_table(path)
            pq.write_table(table, plain, compression="none", use_dictionary=False)
            out += plain.getvalue().to_pybytes() + str(pq.read_metadata(path).metadata).encode()
        if path.is_file():
            out += path.read_bytes()
    return bytes(out)


@pytest.mark.parametrize("name", few_of(NAMES, ["demo"]))
def test_no_byte_of_a_name_remains(name: str, tmp_path: Path) -> None:
    names = original_names(CAPTURES / name)
    before = bytes_of(CAPTURES / name)
    assert len(names) > 4
    assert all(each.encode() in before for each in names)  # the search finds what is there
    anonymise(CAPTURES / name, tmp_path / "shared")
    after = bytes_of(tmp_path / "shared")
    assert [each for each in sorted(names) if each.encode() in after] == []


@pytest.mark.parametrize("name", few_of(NAMES, ["demo"]))
def test_answers_are_equal_under_the_mapping(name: str, tmp_path: Path) -> None:
    anonymise(CAPTURES / name, tmp_path / "shared")
    with (
        sharelag.open(str(CAPTURES / name), engine="local") as original,
        sharelag.open(str(tmp_path / "shared"), engine="local") as shared,
    ):
        lag, other = original.lag().table, shared.lag().table
        assert lag.num_rows == other.num_rows > 0
        names = [table.select(["group_id", "topic"]).to_pylist() for table in (lag, other)]
        pairs = {(k, one[k], two[k]) for one, two in zip(*names, strict=True) for k in one}
        assert len({(kind, a) for kind, a, _ in pairs}) == len(pairs)
        assert len({(kind, b) for kind, _, b in pairs}) == len(pairs)
        mapping = {(kind, a): b for kind, a, b in pairs}
        for ask in ("lag", "windows", "explain"):
            one, two = (getattr(bench, ask)().table for bench in (original, shared))
            drop = {"advice", "evidence", "summary"}  # texts, which name groups and members
            columns = [column for column in one.schema.names if column not in drop]
            expected = one.select(columns).to_pylist()
            for row in expected:
                row |= {
                    k: mapping.get((k, row[k]), row[k]) for k in ("group_id", "topic") if k in row
                }
            assert two.select(columns).to_pylist() == expected
        assert original.members().table.num_rows == shared.members().table.num_rows


def with_hidden_text(folder: Path, place: str) -> None:
    """Append bytes that Kafka's readers ignore to each state value, or add a record of none."""
    path = folder / "records" / "part-0.parquet"
    table = pq.read_table(path)
    if place == "reject":
        broken = table.slice(0, 1).to_pylist()[0] | {"value": HIDDEN, "offset": 1 << 40}
        broken["key"] = b"\0\0\0\x0c" + HIDDEN
        table = pa.concat_tables([table, pa.Table.from_pylist([broken], schemas.RAW)])
    else:
        of_state = pc.equal(table.column("topic"), STATE_TOPIC).to_pylist()
        values = [
            value + HIDDEN if value is not None and mine else value
            for value, mine in zip(table.column("value").to_pylist(), of_state, strict=True)
        ]
        table = with_column(table, "value", values)
    pq.write_table(table, path)


@pytest.mark.parametrize(("place", "left_out"), [("tail", 0), ("reject", 1)])
def test_what_readers_ignore_is_left_out(place: str, left_out: int, tmp_path: Path) -> None:
    source = Path(shutil.copytree(CAPTURES / "scenarios" / "window_full", tmp_path / "c"))
    with_hidden_text(source, place)
    assert HIDDEN in bytes_of(source)
    options = ("--anonymise", "--from", str(source))
    done = sharelag_command("capture", str(tmp_path / "shared"), *options, code=0)
    assert ("1 record is left out" in done.stderr) == bool(left_out)
    assert HIDDEN not in bytes_of(tmp_path / "shared")
    with (
        sharelag.open(str(source), engine="local") as original,
        sharelag.open(str(tmp_path / "shared"), engine="local") as shared,
    ):
        lags = [bench.lag().table.column("lag").to_pylist() for bench in (original, shared)]
        assert lags[0] == lags[1]


def test_what_somebody_has_added_to_files_is_left_out(tmp_path: Path) -> None:
    """Columns, metadata of Parquet, fields of the description, other files."""
    source = Path(shutil.copytree(CAPTURES / "scenarios" / "window_full", tmp_path / "c"))
    text = HIDDEN.decode()
    for path in (*source.glob("*.parquet"), source / "records" / "part-0.parquet"):
        table = pq.read_table(path)
        table = table.append_column("note", pa.array([text] * table.num_rows))
        fields = [field.with_metadata({"note": text}) for field in table.schema]
        pq.write_table(table.cast(pa.schema(fields, {"note": text})), path)
    describe(source, note=text, tool_version=text, options={"client.id": text})
    (source / f"{text}.txt").write_text(text)
    anonymise(source, tmp_path / "shared")
    for path in (tmp_path / "shared").rglob("*.parquet"):
        assert text not in str(pq.ParquetFile(path).metadata.metadata)
        assert text not in str(pq.read_schema(path))
    assert HIDDEN in bytes_of(source)
    assert HIDDEN not in bytes_of(tmp_path / "shared")


def test_the_folder_is_not_replaced_unasked(tmp_path: Path) -> None:
    anonymise(CAPTURES / "scenarios" / "quiet", tmp_path / "shared")
    with pytest.raises(InputError, match="add --overwrite"):
        anonymise(CAPTURES / "scenarios" / "quiet", tmp_path / "shared")
    anonymise(CAPTURES / "scenarios" / "quiet", tmp_path / "shared", overwrite=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--from", "x"], "--from needs --anonymise"),
        (["--anonymise", "--follow"], "not for an archive of --follow"),
        (["--anonymise", "--from", "x", "--bootstrap-server", "b:1"], "not both"),
    ],
)
def test_options_that_do_not_fit(options: list[str], words: str, tmp_path: Path) -> None:
    assert words in refused("capture", str(tmp_path / "shared"), *options, code=2)
