"""ShareAcknowledge as a draft of KIP-932 had it: a session in place of a group and a member.

No broker of Apache Kafka writes it; a log of a test rig or a fork may have it. The draft leaves the
number of the request open: it is taken to be today's.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.wire.messages import Api, api

#: A field of the draft alone.
MARK = r'"sessionId": ?-?\d'
#: What the draft's numbers of acknowledgements mean.
WORDS = ("accept", "release", "reject")
#: Offsets of a batch without records, for which the draft has no number.
GAP = "gap"

_NUMBER = r'"acknowledgeType": ?(-?\d+)'
_BATCH = pa.struct(
    [
        ("startOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("gapOffsets", pa.list_(pa.int64())),
        # A number, or in the older form a word: texts hold both.
        ("acknowledgeType", pa.string()),
    ]
)
_PARTITION = pa.struct(
    [("partitionIndex", pa.int32()), ("acknowledgementBatches", pa.list_(_BATCH))]
)
_TOPIC = pa.struct([("topicId", pa.string()), ("partitions", pa.list_(_PARTITION))])
NAME = "ShareAcknowledge"
#: Group and member stay in it, as null.
_REQUEST = pa.struct(
    [
        *(("groupId", pa.string()), ("memberId", pa.string())),
        *(("sessionId", pa.int32()), ("sessionEpoch", pa.int32())),
        ("topics", pa.list_(_TOPIC)),
    ]
)


def acknowledge() -> Api:
    """Return the request as the draft had it."""
    return Api(NAME, _REQUEST, api(79).response, is_draft=True)


def with_words(objects: pa.Array) -> pa.Array:
    """Return JSON of such requests with texts for all types, numbers or words."""
    return pc.replace_substring_regex(objects, _NUMBER, r'"acknowledgeType":"\1"')


def numbers_and_words(types: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the number and the word of each type.

    A type that is left out is 0, accept. The word of an unknown one says so; the number of an
    unknown word is null.
    """
    given = pc.fill_null(types, "0")
    by_word = pc.index_in(given, pa.array(WORDS))
    is_number = pc.match_substring_regex(given, r"^-?\d{1,3}$")
    number = pc.if_else(is_number, given, None).cast(pa.int16())
    code = pc.coalesce(number, by_word.cast(pa.int16()))
    known = pc.and_(pc.greater_equal(code, 0), pc.less(code, len(WORDS))).fill_null(False)
    word = pa.array(WORDS).take(pc.if_else(known, code, None))
    unknown = pc.binary_join_element_wise("unknown", given, " ")
    return code, pc.coalesce(word, unknown)


def split_at_gaps(
    first: pa.Array, last: pa.Array, gaps: pa.Array
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Cut batches at their offsets without records.

    Return of each run, in order: its batch, first and last offset, and whether it is such an
    offset. Of a batch that lacks its first or last offset both are null.
    """
    begin, end = (_integers(side) for side in (first, last))
    of_gap = _integers(pc.list_parent_indices(gaps))
    gap = _integers(pc.list_flatten(gaps))
    inside = (gap >= begin[of_gap]) & (gap <= end[of_gap])
    of_gap, gap = np.unique(np.stack([of_gap[inside], gap[inside]]), axis=1)
    batch = np.concatenate([np.arange(len(begin)), of_gap])
    starts, stops = np.concatenate([begin, gap + 1]), np.concatenate([end, gap - 1])
    starts, stops = starts[np.lexsort((starts, batch))], stops[np.lexsort((stops, batch))]
    batch = np.sort(batch, kind="stable")
    kept = starts <= stops
    runs = [np.concatenate(pair) for pair in ((batch[kept], of_gap), (starts[kept], gap))]
    runs.append(np.concatenate([stops[kept], gap]))
    is_gap = np.arange(len(runs[0])) >= int(kept.sum())
    order = np.lexsort((runs[1], runs[0]))
    of, begins, ends = (pa.array(column[order].astype(np.int64)) for column in runs)
    unknown = pc.or_(first.is_null(), last.is_null()).take(of)
    begins, ends = (pc.if_else(unknown, None, side) for side in (begins, ends))
    return of, begins, ends, pa.array(is_gap[order])


def _integers(column: pa.Array) -> NDArray[np.int64]:
    """Return integers, -1 where a line lacks one."""
    return np.asarray(pc.fill_null(column, -1), np.int64)
