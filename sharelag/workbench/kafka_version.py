"""The version of Kafka that an input comes from."""

from __future__ import annotations

from sharelag.errors import ClusterError
from sharelag.sources.inputs import CaptureInput, Input, KafkaInput


def told_version(source: Input) -> str | None:
    """Return the release or version that an input tells; None where it tells none."""
    if isinstance(source, CaptureInput):
        return source.kafka_version
    if not isinstance(source, KafkaInput):
        return None
    from sharelag.sources.kafka.features import broker_features

    try:
        return broker_features(source.config).release
    except ClusterError:  # the next request to the cluster reports it
        return None
