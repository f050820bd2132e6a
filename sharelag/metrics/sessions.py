"""Which partitions the share sessions of members have, by the fetches in a log of requests.

A session begins at epoch 0, has each partition that a fetch names until one forgets it, and ends at
epoch -1 (KIP-932, "ShareFetch").
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.request_rows import integers, series
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.schemas.requests import SESSIONS

_OF_MEMBER = ("broker", "group_id", "member_id")
_LINE = ("source", "position")
_OPENS, _CLOSES = 0, -1
_ENDS = ["session opened anew", "session closed", "forgotten"]
_NEVER = np.iinfo(np.int64).max


def sessions(tables: Mapping[str, Arrow]) -> pa.Table:
    """Return which partitions were in which share session.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table or pyarrow.RecordBatch
        ``requests`` and ``session_partitions`` of `sharelag.schemas.requests.REQUEST_TABLES`.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.requests.SESSIONS`, sorted. Requests that failed as a whole do not count.
    """
    requests = as_table(tables["requests"])
    of_sessions = requests.column("session_epoch").is_valid()
    good = pc.and_(pc.equal(requests.column("error_code"), 0).fill_null(False), of_sessions)
    made, first = series(requests.filter(good), _OF_MEMBER)
    named = as_table(tables["session_partitions"])
    line = pc.index_in(keys(named, _LINE), keys(made, _LINE))
    named = named.filter(line.is_valid())
    if not named.num_rows:
        return SESSIONS.empty_table()
    epoch = integers(made, "session_epoch")
    begins = first | (epoch == _OPENS) | np.append(False, epoch[:-1] == _CLOSES)
    number = np.cumsum(begins)
    of = number[np.asarray(line.drop_null().to_numpy(), np.int64)]
    end, why = _ends(made, first, begins, epoch)
    named = named.append_column("session", pa.array(of))
    rows, is_first = series(named, ("session", "topic_id", "partition"))
    gone = np.asarray(rows.column("forgotten").to_numpy(), bool)
    opens = ~gone & (is_first | np.append(False, gone[:-1]))
    at, times = np.flatnonzero(opens), integers(rows, "timestamp")
    # The first row after each, of the same partition and session, that forgets it.
    forgets = np.flatnonzero(gone)
    after = np.append(forgets, len(gone))[np.searchsorted(forgets, at)]
    run = np.cumsum(is_first)
    mine = (after < len(gone)) & (run[np.minimum(after, len(gone) - 1)] == run[at])
    session = integers(rows, "session")[at]
    until = np.where(mine, times[np.minimum(after, len(gone) - 1)], end[session])
    cause = np.where(mine, _ENDS.index("forgotten"), why[session])
    known = rows.take(pa.array(at))
    ended = until != _NEVER
    columns = {name: flat(known.column(name)) for name in known.column_names} | {
        "since": flat(known.column("timestamp")),
        "until": pa.array(until, mask=~ended).cast(SESSIONS.field("until").type),
        "ended_by": pa.array(_ENDS).take(pa.array(cause, mask=~ended)),
    }
    table = pa.table([columns[field.name] for field in SESSIONS], schema=SESSIONS)
    names = ("group_id", "member_id", "broker", "topic_id", "partition", "since")
    return table.sort_by([(name, "ascending") for name in names])


def _ends(
    made: pa.Table, first: NDArray[np.bool_], begins: NDArray[np.bool_], epoch: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when each session ended, by its number from 1 on, and why, as an index of `_ENDS`."""
    times, starts = integers(made, "timestamp"), np.flatnonzero(begins)
    end, why = (np.full(len(starts) + 1, value, np.int64) for value in (_NEVER, 0))
    following = starts[1:]
    same = ~first[following]
    end[1:-1][same] = times[following[same]]
    last = np.append(following, len(epoch)) - 1
    closed = epoch[last] == _CLOSES
    end[1:][closed], why[1:][closed] = times[last[closed]], _ENDS.index("session closed")
    return end, why
