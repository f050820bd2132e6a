"""Unknown lags: why they are not known, and whether somebody has to act."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sharelag.metrics.evidence import Evidence
from sharelag.metrics.facts import Facts
from sharelag.metrics.finders import not_started
from sharelag.tables.level import OK, UNKNOWN, WARNING, rank
from sharelag.tables.reasons import NO_START_OFFSET, REASONS

_NOTHING_CAME = "nothing came that could be fetched"
_CAME = "records came, and nothing was ever fetched"
_MAY_HAVE_COME = "nothing was ever fetched, and whether records came is not known"


def unknown_lags(evidence: Evidence) -> dict[str, list[tuple[str, str]]]:
    """How each group stands by the lags that are not known.

    Parameters
    ----------
    evidence : Evidence

    Returns
    -------
    dict of str to list of (str, str)
        By group a level and a sentence for each reason, the worst first; groups whose lag is known
        whole are not there. A share partition that was never fetched is fine where nothing came,
        and a warning where records did. One that could not be asked for is unknown.
    """
    facts = Facts(evidence)
    reasons = evidence.lag.column("lag_reason").to_pylist()
    came = not_started(facts).where
    end = facts.lag("end_offset")
    nothing_came = (end <= facts.lag("log_start_offset")) | ((facts.arrived == 0) & ~np.isnan(end))
    found: dict[str, Counter[tuple[str, str]]] = {}
    for row in np.flatnonzero(np.isnan(facts.lag("lag"))).tolist():
        if reasons[row] != NO_START_OFFSET:
            told = (UNKNOWN, REASONS.get(reasons[row], "the lag is not known"))
        elif came[row]:
            told = (WARNING, _CAME)
        elif nothing_came[row]:
            told = (OK, _NOTHING_CAME)
        else:
            told = (UNKNOWN, _MAY_HAVE_COME)
        found.setdefault(str(facts.groups[row]), Counter())[told] += 1
    return {
        group: [
            (level, f"{words} ({count} share partition{'s' * (count != 1)})")
            for (level, words), count in sorted(
                counts.items(), key=lambda it: (-rank(it[0][0]), it[0][1])
            )
        ]
        for group, counts in found.items()
    }
