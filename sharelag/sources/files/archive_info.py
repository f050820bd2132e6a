"""An archive's capture.json: its metadata, written at creation, and whether it can be continued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharelag.errors import InputError
from sharelag.sources.files.description import (
    check_fields,
    describing,
    read_description,
    write_description,
)
from sharelag.sources.kafka.config import ClientConfig
from sharelag.version import __version__

FORMAT, KIND = 1, "archive"
_ABOUT = "capture.json"


@dataclass(frozen=True)
class ArchiveInfo:
    """The metadata of an archive."""

    cluster_id: str
    topics: Mapping[
        str, Sequence[int]
    ]  # first offset of each partition at creation; empty: the topic did not exist
    options: Mapping[str, Any]
    tool_version: str = __version__


def is_archive(folder: Path) -> bool:
    """Whether a folder is an archive."""
    path = folder / _ABOUT
    try:
        return path.is_file() and bool(read_description(path).get("kind") == KIND)
    except (ValueError, AttributeError):
        return False


def read_info(folder: Path) -> ArchiveInfo | None:
    """Return the metadata of an archive; None if a new one can be created.

    Raises
    ------
    InputError
        When the folder has other contents, or an archive with another format.
    """
    path = folder / _ABOUT
    if not path.exists():
        if folder.exists() and (
            not folder.is_dir() or any(p.name != f"{_ABOUT}.new" for p in folder.iterdir())
        ):
            raise InputError(f"{folder} is not an archive and not empty: choose another folder")
        return None
    with describing(path, "an archive", "choose another folder"):
        about = read_description(path)
        if about.get("kind") != KIND:
            raise InputError(
                f"{folder} is a capture, which cannot be continued: choose another folder"
            )
        check_fields(path, about, KIND, FORMAT)
        topics = {name: list(topic["first_offsets"]) for name, topic in about["topics"].items()}
        return ArchiveInfo(about["cluster_id"], topics, about["options"], about["tool_version"])


def begin(
    folder: Path, cluster_id: str, topics: Mapping[str, Sequence[int]], config: ClientConfig
) -> ArchiveInfo:
    """Create an archive, or check that the existing one can be continued.

    Parameters
    ----------
    folder : pathlib.Path
    cluster_id : str
    topics : mapping of name to first offsets
        The current first offset of every partition.
    config : ClientConfig

    Returns
    -------
    ArchiveInfo
        As written at creation.

    Raises
    ------
    InputError
        When the folder has other contents, or an archive of another cluster or other topics.
    """
    found = read_info(folder)
    if found is None:
        found = ArchiveInfo(cluster_id, topics, config.public())
        folder.mkdir(parents=True, exist_ok=True)
        half = folder / f"{_ABOUT}.new"
        write_description(half, _to_json(found))
        half.replace(folder / _ABOUT)
    if found.cluster_id != cluster_id:
        raise InputError(
            f"{folder} is an archive of cluster {found.cluster_id}, not of {cluster_id}: "
            "choose another folder"
        )
    if found.topics.keys() != topics.keys():
        raise InputError(
            f"{folder} is an archive of {', '.join(found.topics)}: "
            "give the same topics or choose another folder"
        )
    return found


def _to_json(info: ArchiveInfo) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": KIND,
        "cluster_id": info.cluster_id,
        "tool_version": info.tool_version,
        "options": dict(info.options),
        "topics": {
            name: {"partitions": len(first), "first_offsets": list(first)}
            for name, first in info.topics.items()
        },
    }
