"""What did a window look like, offset by offset, after each of its records? `WINDOWS` of many moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.arrow import flat
from sharelag.engine import Answer, Choice, choose, decoded
from sharelag.replay.at_moments import replay_at
from sharelag.replay.moment import Moment
from sharelag.sources.inputs import Input
from sharelag.wire.fields import STATE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: As many as `window_moments` gives when not told otherwise.
MOST = 240


def window_moments(
    source: Input, engine: str, as_of: Moment, choice: Choice, topic_ids: list[str], most: int = MOST
) -> Answer:
    """Windows after the records of some share partitions, with all their runs.

    Parameters
    ----------
    source, engine, as_of
        As for `sharelag.engine.windows`.
    choice : Choice
        The groups; few, since all their records are held here.
    topic_ids : list of str
        The topics.
    most : int
        Moments; of more, as many that are evenly apart among the records, the last among them.

    Returns
    -------
    Answer
        ``table`` is `sharelag.schemas.WINDOWS`, a row a share partition and moment at which it had a state, with the
        moment in ``as_of``.
    """
    run = choose(engine, source)
    records, rejected = _on_spark(source, as_of, choice) if run == "spark" else _locally(source, as_of, choice)
    records = records.filter(pc.is_in(records.column("topic_id"), pa.array(topic_ids, pa.string())))
    times = np.unique(flat(records.column("timestamp")).drop_null().view(pa.int64()).to_numpy())
    kept = times[np.unique(np.linspace(0, len(times) - 1, min(most, len(times))).round().astype(np.int64))]
    return Answer(replay_at(records, kept), rejected, run)


def _locally(source: Input, as_of: Moment, choice: Choice) -> tuple[pa.Table, int]:
    batches, rejected = [], 0
    for records, rejects, _ in decoded(source, STATE_TOPIC, as_of, Choice(choice.groups)):
        batches.append(records)
        rejected += rejects.num_rows
    return pa.Table.from_batches(batches, schemas.RECORDS), rejected


def _on_spark(source: Input, as_of: Moment, choice: Choice) -> tuple[pa.Table, int]:
    from sharelag import pipeline
    from sharelag.sources.spark import session

    both = pipeline.decode(source.frame(session(), STATE_TOPIC))
    records: DataFrame = pipeline.chosen(both.records, as_of, choice.groups)
    table = records.toArrow().select(schemas.RECORDS.names).cast(schemas.RECORDS)
    return table, int(both.rejects.count())
