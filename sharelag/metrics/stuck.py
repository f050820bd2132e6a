"""Offsets that more members would not finish: stuck records, full windows, open transactions."""

from __future__ import annotations

import numpy as np

from sharelag.metrics.causes import known_causes
from sharelag.metrics.causes.inputs import CauseInputs, Floats


def stuck(facts: CauseInputs) -> Floats:
    """Count the offsets of each share partition that more members cannot finish, up to its lag."""
    held = np.zeros(len(facts.groups))
    for cause in known_causes():
        if not cause.members_help:
            found = cause.find(facts)
            # An offset may have several causes; the largest count is a lower bound.
            held = np.maximum(held, np.where(found.where, np.nan_to_num(found.held), 0))
    return np.minimum(held, np.nan_to_num(facts.lag("lag")))
