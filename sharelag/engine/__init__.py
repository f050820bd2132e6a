"""One reading of an input: the same tables by name, on either engine.

The state topic is read once, then the input is queried for everything else, in the order that keeps
lag from being negative: the state before the end offsets. `sharelag.engine.local` computes the
tables in this process, `sharelag.engine.spark` on Spark; `engines` chooses.
"""

from sharelag.engine.reading import Reading as Reading
from sharelag.engine.tables import ORDER as ORDER
from sharelag.engine.tables import OVER as OVER
from sharelag.engine.tables import Counted as Counted
from sharelag.engine.tables import CountedGroups as CountedGroups
from sharelag.engine.tables import Each as Each
from sharelag.engine.tables import Ledger as Ledger
from sharelag.engine.tables import OfQueue as OfQueue
from sharelag.engine.tables import Rows as Rows
from sharelag.engine.tables import add_topic_names as add_topic_names
from sharelag.engine.tables import chosen_partitions as chosen_partitions
from sharelag.engine.tables import earliest as earliest
from sharelag.engine.tables import rows_of as rows_of
