"""Samples of what is exported, and evidence to export."""

from typing import Any

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)

from tests.support.chapters import CAPTURE

EXAMPLES = CAPTURE.parents[1] / "examples"
SCENARIOS = CAPTURE.parent / "scenarios"
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def samples(text: str, families: Any = openmetrics_families) -> Samples:
    """Values by metric and labels; each may be there only once."""
    found: Samples = {}
    for family in families(text):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in series
            series[labels] = sample.value
    return found


def labels(**pairs: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pairs.items()))
