"""The walk of KIP-932 from 100 to 120: what is written, what is recovered, what is live."""

from sharelag.model import StateBatch
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, encode_record
from tests.support.records import row

#: After which step of the walk, the start offset and the batches that are written.
WALK = {
    0: (100, []),
    2: (110, []),
    4: (-1, [(110, 110, 0, 1)]),
    5: (-1, [(111, 118, 0, 0), (119, 119, 2, 1)]),
    7: (-1, [(111, 112, 0, 1)]),
    8: (-1, [(113, 118, 2, 1)]),
    10: (-1, [(110, 110, 2, 2)]),
    11: (120, []),
}

#: What is recovered when the leader is lost after a step.
RECOVERED = {
    0: (100, []),
    2: (110, []),
    4: (110, [(110, 110, 0, 1)]),
    5: (110, [(110, 110, 0, 1), (111, 118, 0, 0), (119, 119, 2, 1)]),
    7: (110, [(110, 112, 0, 1), (113, 118, 0, 0), (119, 119, 2, 1)]),
    8: (110, [(110, 112, 0, 1), (113, 119, 2, 1)]),
    10: (111, [(111, 112, 0, 1), (113, 119, 2, 1)]),
    11: (120, []),
}


def walk_records(last_step: int) -> list[tuple[int, bytes, bytes | None]]:
    """A snapshot, then an update for each later write, up to a step of the walk."""
    records: list[tuple[int, bytes, bytes | None]] = []
    for step, (start, batches) in WALK.items():
        if step <= last_step:
            kind = SHARE_UPDATE if records else SHARE_SNAPSHOT
            records.append((step, *encode_record(kind, row(start, batches))))
    return records


AVAILABLE, ACQUIRED, ACKNOWLEDGED = 0, 1, 2
LOG_END = 121
LAST_ACKNOWLEDGED, ALL_ACKNOWLEDGED = (119, 119, ACKNOWLEDGED, 1), (113, 119, ACKNOWLEDGED, 1)
TIMED_OUT, BEYOND = (111, 112, AVAILABLE, 1), (120, 120, ACQUIRED, 1)

#: Step -> SPSO, SPEO (exclusive), live runs (first, last, state, delivery count).
LIVE: dict[int, tuple[int, int, list[tuple[int, int, int, int]]]] = {
    0: (100, 100, []),
    1: (100, 110, [(100, 109, ACQUIRED, 1)]),
    2: (110, 110, []),
    3: (110, 120, [(110, 119, ACQUIRED, 1)]),
    4: (110, 120, [(110, 110, AVAILABLE, 1), (111, 119, ACQUIRED, 1)]),
    5: (110, 120, [(110, 110, AVAILABLE, 1), (111, 118, ACQUIRED, 1), LAST_ACKNOWLEDGED]),
    6: (110, 121, [(110, 110, ACQUIRED, 2), (111, 118, ACQUIRED, 1), LAST_ACKNOWLEDGED, BEYOND]),
    7: (
        110,
        121,
        [(110, 110, ACQUIRED, 2), TIMED_OUT, (113, 118, ACQUIRED, 1), LAST_ACKNOWLEDGED, BEYOND],
    ),
    8: (110, 121, [(110, 110, ACQUIRED, 2), TIMED_OUT, ALL_ACKNOWLEDGED, BEYOND]),
    9: (110, 121, [(110, 112, ACQUIRED, 2), ALL_ACKNOWLEDGED, BEYOND]),
    10: (111, 121, [(111, 112, ACQUIRED, 2), ALL_ACKNOWLEDGED, BEYOND]),
    11: (120, 121, [BEYOND]),
}


def by_offset(runs: list[StateBatch]) -> dict[int, tuple[int, int]]:
    return {o: (run[2], run[3]) for run in runs for o in range(run[0], run[1] + 1)}
