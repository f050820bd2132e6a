"""How long a what-if simulates where nobody said so: the same everywhere."""

from __future__ import annotations

from dataclasses import replace

from sharelag.whatif.scenario import Scenario

#: At most and at least, and how many records may arrive in that time if it is more than the least:
#: what takes seconds to simulate a few times.
LONGEST_MS, SHORTEST_MS = 600_000, 120_000
MOST_RECORDS = 20_000
#: In words, for helps.
WORDS = "10m, and of busy groups less, down to 2m"


def cut_short(scenario: Scenario) -> Scenario:
    """Return a scenario for as long as takes seconds to simulate, in whole seconds."""
    rate = sum(producer.rate for producer in scenario.producers)
    long_ms = int(MOST_RECORDS / rate) * 1000 if rate else LONGEST_MS
    return replace(scenario, duration_ms=min(max(long_ms, SHORTEST_MS), LONGEST_MS))
