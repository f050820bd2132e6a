"""Unknown lags: why they are unknown, and whether somebody has to act."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sharelag.metrics.evidence import Evidence
from sharelag.metrics.facts import Facts
from sharelag.metrics.finders import not_started
from sharelag.tables.level import OK, UNKNOWN, WARNING, rank
from sharelag.tables.reasons import NO_START_OFFSET, REASONS
from sharelag.tables.words import counted

_NOTHING_CAME = "nothing to fetch has arrived yet"
_CAME = "records arrived, but none was ever fetched"
_MAY_HAVE_COME = "nothing was ever fetched, and it is unknown whether records arrived"


def unknown_lags(evidence: Evidence) -> dict[str, list[tuple[str, str]]]:
    """Judge each group by its unknown lags.

    Returns
    -------
    dict of str to list of (str, str)
        By group, a level and a sentence for each reason, the worst first; groups without unknown
        lags are left out. A share partition that was never fetched is ok if nothing arrived, and a
        warning if records did. One whose offsets could not be read is unknown.
    """
    facts = Facts.of(evidence)
    reasons = evidence.lag.column("lag_reason").to_pylist()
    came = not_started(facts).where
    end = facts.lag("end_offset")
    nothing_came = (end <= facts.lag("log_start_offset")) | ((facts.arrived == 0) & ~np.isnan(end))
    found: dict[str, Counter[tuple[str, str]]] = {}
    for row in np.flatnonzero(np.isnan(facts.lag("lag"))).tolist():
        if reasons[row] != NO_START_OFFSET:
            finding = (UNKNOWN, REASONS.get(reasons[row], "the lag is unknown"))
        elif came[row]:
            finding = (WARNING, _CAME)
        elif nothing_came[row]:
            finding = (OK, _NOTHING_CAME)
        else:
            finding = (UNKNOWN, _MAY_HAVE_COME)
        found.setdefault(str(facts.groups[row]), Counter())[finding] += 1
    return {
        group: [
            (level, f"{words} ({counted(count, 'share partition')})")
            for (level, words), count in sorted(
                counts.items(), key=lambda it: (-rank(it[0][0]), it[0][1])
            )
        ]
        for group, counts in found.items()
    }
