"""The cluster of an input: reports of different clusters are never compared."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sharelag.errors import ShareLagError
from sharelag.sources.files.archive import ArchiveInput
from sharelag.sources.files.captures import read_capture
from sharelag.sources.inputs import CaptureInput, Input, KafkaInput
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.open import captured


def cluster_of(source: Input) -> str | None:
    """Return Kafka's id of the input's cluster; None if the input does not have it."""
    if isinstance(source, ArchiveInput):
        return source.info().cluster_id
    if isinstance(source, CaptureInput):
        return read_capture(source.folder).info.cluster_id
    return kafka.cluster_id(source.config) if isinstance(source, KafkaInput) else None


def cluster_in(folder: str | Path) -> str | None:
    """Return the cluster id of a capture or an archive; None if it cannot be read."""
    with suppress(ShareLagError, OSError):
        return cluster_of(captured(Path(folder)))
    return None
