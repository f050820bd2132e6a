"""Tests of what Kafka does since a release, where ``tools.versions`` runs them on older ones."""

import pytest

from sharelag.model.versions import has_reached
from tests.support.kafka.jars import KAFKA_VERSION


def since(release: str, why: str) -> pytest.MarkDecorator:
    """Mark a test that holds from a release on; pytest shows the reason where it is left out."""
    reason = f"since Kafka {release}: {why}"
    return pytest.mark.skipif(not has_reached(KAFKA_VERSION, release), reason=reason)


#: Of tests whose members are those of `tests.support.kafka.workload`.
SHARE_CONSUMERS = since("4.2", "librdkafka's share consumers need version 2 of ShareFetch")
