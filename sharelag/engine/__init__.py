"""One reading of an input: the same tables by name, on either engine.

The state topic is read once, then the input is queried for everything else, in the order that keeps
lag from being negative: the state before the end offsets. `sharelag.engine.local` computes the
tables in this process, `sharelag.engine.spark` on Spark; `engines` chooses.
"""

from sharelag.engine.reading import Reading
from sharelag.engine.tables import (
    ORDER,
    OVER,
    Counted,
    CountedGroups,
    Each,
    Ledger,
    OfQueue,
    Rows,
    add_topic_names,
    chosen_partitions,
    earliest,
    rows_of,
)

__all__ = [
    "ORDER",
    "OVER",
    "Counted",
    "CountedGroups",
    "Each",
    "Ledger",
    "OfQueue",
    "Reading",
    "Rows",
    "add_topic_names",
    "chosen_partitions",
    "earliest",
    "rows_of",
]
