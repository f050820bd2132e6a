"""What the documentation says that each generation costs is what its records are."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from sharelag.wire.fields import STATE_TOPIC
from tests.support.generations import raw_of
from tests.support.walk import WALK

PAGE = Path(__file__).parents[3] / "docs" / "generations.md"
#: Bytes of a topic's id, which a control record's key has here and not in a user's log.
TOPIC_ID = 16


def test_control_records_are_written_into_the_users_topic_and_states_are_not() -> None:
    """GL-03 against GL-02: eight records in the user's log, or none."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| G")]
    for generation in range(5):
        records = raw_of(WALK.values(), generation)
        at_state = pc.sum(pc.equal(records.column("topic"), STATE_TOPIC)).as_py()
        at_user = records.num_rows - at_state
        values, keys = (
            pc.sum(pc.binary_length(records.column(name))).as_py() for name in ("value", "key")
        )
        counts = (at_user, at_state, values, keys - TOPIC_ID * at_user)
        assert counts[:2] == ((8, 0) if generation < 2 else (0, 8))
        assert f"| G{generation} | {' | '.join(map(str, counts))} |" in lines
