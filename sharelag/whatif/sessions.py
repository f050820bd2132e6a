"""Epochs of share sessions: a broker refuses a request that is not the next one.

0 opens a session, each ``ShareFetch`` or ``ShareAcknowledge`` has the next epoch, -1 closes it
(KIP-932).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.whatif.simulation.tables import REQUESTS

#: One request that its broker would refuse.
SESSION_GAPS = pa.schema([*REQUESTS, ("expected", pa.int32()), ("reason", pa.string())])
GAP, NO_SESSION = "gap", "no session"
_OPENS, _CLOSES = 0, -1


def session_gaps(requests: pa.Table) -> pa.Table:
    """The requests whose session epoch does not follow the one before.

    Parameters
    ----------
    requests : pyarrow.Table
        `sharelag.whatif.simulation.tables.REQUESTS`, in the order in which each member sent them.

    Returns
    -------
    pyarrow.Table
        `SESSION_GAPS`: ``gap`` after another request of the session, ``no session`` where none is
        open, with the epoch that was due. What follows is held against the epoch that was sent.
    """
    schemas.require(requests, REQUESTS, "requests")
    session = pc.binary_join_element_wise(
        requests.column("member"), requests.column("broker").cast(pa.string()), "\n"
    )
    codes = session.combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    epoch = requests.column("session_epoch").to_numpy()[order].astype(np.int64)
    begins = np.ones(len(order), bool)
    begins[1:] = np.diff(codes[order]) != 0
    before = np.where(begins, _CLOSES, np.roll(epoch, 1))
    is_open = before != _CLOSES
    due = before + 1  # after a close that is 0, which opens
    follows = (epoch == due) | (epoch == _OPENS) | (is_open & (epoch == _CLOSES))
    wrong = order[~follows]
    reasons = np.where(is_open[~follows], GAP, NO_SESSION)
    found = requests.take(pa.array(wrong))
    for name, values in (("expected", due[~follows]), ("reason", reasons)):
        found = found.append_column(name, pa.array(values))
    return found.take(pa.array(np.argsort(wrong, kind="stable"))).cast(SESSION_GAPS)
