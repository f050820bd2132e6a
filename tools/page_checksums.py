"""Rewrite Parquet files and descriptions as `sharelag` writes them, with the same contents.

``python -m tools.page_checksums data tests/data`` adds checksums to files of older versions.
Columns, row groups and the schema in the footer are kept; a file that would not read the same is
not replaced.
"""

from __future__ import annotations

import argparse
from base64 import b64decode
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag.inputs.files import parquet
from sharelag.inputs.files.captures import read_description, write_description


def rewrite(path: Path) -> None:
    """Replace a file by one with checksums.

    Raises
    ------
    RuntimeError
        The new file has other contents; the old one is kept.
    """
    aside = path.with_name(f".{uuid4().hex}")
    try:
        with parquet.open_parquet(path) as old:
            schema = _stored(old)
            with parquet.writer(aside, schema) as file:
                for number in range(old.num_row_groups):
                    group = old.read_row_group(number).cast(schema)
                    file.write_table(group, row_group_size=max(group.num_rows, 1))
            with parquet.open_parquet(aside) as new:
                same = new.schema_arrow.equals(old.schema_arrow, check_metadata=True)
                same &= new.metadata.metadata == old.metadata.metadata
                same &= new.num_row_groups == old.num_row_groups
                for number in range(old.num_row_groups if same else 0):
                    same &= new.read_row_group(number).equals(old.read_row_group(number))
        if not same:
            raise RuntimeError(f"{path} would not read the same")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _stored(file: pq.ParquetFile) -> pa.Schema:
    """Return the schema with which it was written, including its names of list elements."""
    found = (file.metadata.metadata or {}).get(b"ARROW:schema")
    return (
        file.schema_arrow if found is None else pa.ipc.read_schema(pa.py_buffer(b64decode(found)))
    )


def main() -> None:
    """Rewrite the files in the command line, and print the change of sizes."""
    parser = argparse.ArgumentParser(description="Write Parquet files again, with checksums.")
    parser.add_argument("paths", type=Path, nargs="+", help="files, or folders with some")
    for place in parser.parse_args().paths:
        paths = sorted(place.rglob("*.parquet")) if place.is_dir() else [place]
        before = sum(path.stat().st_size for path in paths)
        for path in paths:
            rewrite(path)
        for path in place.rglob("capture.json"):
            write_description(path, read_description(path))
        after = sum(path.stat().st_size for path in paths)
        print(f"{place}: {len(paths)} files, {before:,} bytes before, {after:,} now")


if __name__ == "__main__":
    main()
