"""The cluster that an input is of: clusters may share names, and are not compared with each other."""

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
    """Kafka's id of the cluster that an input is or was of; None where the input does not tell it."""
    if isinstance(source, ArchiveInput):
        return source.info().cluster_id
    if isinstance(source, CaptureInput):
        return read_capture(source.folder).info.cluster_id
    return kafka.cluster_id(source.config) if isinstance(source, KafkaInput) else None


def cluster_in(folder: str | Path) -> str | None:
    """The same of a capture or an archive; None where there is none: who reads it will say that."""
    with suppress(ShareLagError, OSError):
        return cluster_of(captured(Path(folder)))
    return None
