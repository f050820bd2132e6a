"""Requests of one kind in a log, and the moments of what happened in them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.schemas import requests as schemas
from sharelag.wire.requests import drafts
from sharelag.wire.requests.lines import Completed
from sharelag.wire.requests.nested import all_of
from sharelag.wire.requests.values import column

#: A connection is the broker's address, the client's, and two numbers.
_BROKER = r"^(?P<broker>.*?:\d+)-"
#: A line counts as a microsecond later for so many bytes of its file: fewer than a line has.
_LINE = 512

Columns: TypeAlias = dict[str, Any]


class Log:
    """Requests of one kind, and the moments of what happened in them."""

    def __init__(self, one: Completed) -> None:
        self.one = one
        self.is_draft = one.api is drafts.ACKNOWLEDGE
        self.request = all_of(column(one.rows, "request"))
        self.response = all_of(column(one.rows, "response"))
        completed = one.completed.at.cast(pa.int64()).to_numpy()
        spans = {
            name: pc.fill_null(column(one.rows, f"{name}TimeMs"), 0.0).to_numpy()
            for name in ("total", "requestQueue", "responseQueue", "send")
        }
        micros = {name: (1000 * span).astype(np.int64) for name, span in spans.items()}
        connection = column(one.rows, "connection")
        self.broker = pc.struct_field(pc.extract_regex(connection, _BROKER), "broker")
        # Within a second that a log does not divide, its order is all that is known.
        is_exact = one.completed.is_exact.to_numpy(zero_copy_only=False)
        line = np.minimum(one.position.to_numpy() // _LINE, 999_999)
        completed = completed + np.where(is_exact, 0, line)
        self.completed = completed
        self.began = completed - micros["total"]
        #: When the broker began to work on it, which is when acknowledgements count.
        self.handled = np.where(is_exact, self.began + micros["requestQueue"], completed)
        #: When the answer was there, which is when records are acquired and locks begin.
        self.answered = completed - is_exact * (micros["responseQueue"] + micros["send"])

    def made(
        self,
        schema: pa.Schema,
        row: pa.Array,
        columns: Columns,
        at: NDArray[np.int64] | None = None,
    ) -> pa.RecordBatch:
        """Return rows of a table: the columns of their lines, and these; others are null."""
        moments = pa.array(self.completed if at is None else at).cast(schemas.INSTANT)
        line = {"position": self.one.position.take(row), "timestamp": moments.take(row)}
        line["broker"] = self.broker.take(row)
        line["source"] = self.one.source
        arrays = []
        for field in schema:
            value = (line | columns).get(field.name)
            if not isinstance(value, pa.Array):
                value = pa.repeat(pa.scalar(value, field.type), len(row))
            arrays.append(value.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def asked(self, name: str, row: pa.Array | None = None) -> pa.Array:
        """Return a field of requests, by row."""
        values = self.request.of(name)
        return values if row is None else values.take(row)
