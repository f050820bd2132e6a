"""Why lag is spread unevenly: data skew, consumer starvation, or assignment skew.

Each of the three is about partitions (or members) that differ in something other than lag, and
applies if the lag concentrates there: their share of the lag exceeds their share of the partitions
(or members) by `EXCESS` or more.

    data_skew        partitions that received more than the average one
    starvation       partitions with fewer members than the average one
    assignment_skew  members with more partitions than the average one, by two or more

An uneven lag that does not concentrate in any of these is only `uneven`: then look at single
partitions and at what blocks their start offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.columns import batch_of, floats, lists_of
from sharelag.metrics.imbalance import spread_columns
from sharelag.metrics.load_per_item import known_sums, member_loads, partition_loads
from sharelag.schemas import TIMESTAMP, Arrow
from sharelag.tables.arrow import flat
from sharelag.tables.words import counted

NO_MEMBERS = "no_members"  # there is lag but no member: not a matter of balance
STARVATION = "starvation"
ASSIGNMENT_SKEW = "assignment_skew"
DATA_SKEW = "data_skew"
UNEVEN = "uneven"
EVEN = "even"
NO_LAG = "no_lag"
VERDICTS = {
    NO_MEMBERS: "there is lag but no member: start consumers before balancing anything",
    STARVATION: "the lag is on partitions with fewer members than average",
    ASSIGNMENT_SKEW: "the lag is on members with more partitions than the others",
    DATA_SKEW: "the lag is on partitions that receive more records than the others",
    UNEVEN: "the lag is uneven, but neither known arrivals nor members explain it",
    EVEN: "the lag is spread evenly",
    NO_LAG: "there is no lag",
}

#: Minimum excess of the share of the lag: one in five offsets would have to move to make it even.
EXCESS = 0.2
#: Minimum excess of the share of arrivals that counts as uneven.
_ARRIVALS_EXCESS = 0.1

#: Where the lag of one group concentrates, with the figures. All shares are between 0 and 1.
SKEW = pa.schema(
    [
        ("group_id", pa.string()),
        ("verdict", pa.string()),  # one of `VERDICTS`; null: no lag is known
        ("findings", pa.list_(pa.string())),  # those of the three that apply, strongest first
        ("lag", pa.float64()),
        ("lag_gini", pa.float64()),
        ("lag_max_mean", pa.float64()),
        # the share of the lag that would have to move to make it even
        ("lag_hoover", pa.float64()),
        ("partitions", pa.int64()),
        ("unknown_lags", pa.int64()),
        # the share of partitions with more arrivals than the average one
        ("busy_partitions", pa.float64()),
        ("busy_arrived", pa.float64()),  # their share of the arrivals
        ("busy_lag", pa.float64()),  # their share of the lag
        ("finished_gini", pa.float64()),  # inequality of finished offsets
        ("members", pa.int64()),
        ("idle_members", pa.int64()),  # without assigned partitions
        ("unattended_partitions", pa.int64()),  # without members
        # the share of partitions with fewer members than the average one
        ("starved_partitions", pa.float64()),
        ("starved_lag", pa.float64()),
        ("max_partitions", pa.int64()),  # of one member
        # the share of members with more partitions than the average one
        ("loaded_members", pa.float64()),
        ("loaded_lag", pa.float64()),
        ("as_of", TIMESTAMP),
    ]
)

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def verdict_words(row: Mapping[str, Any]) -> str:
    """Say where the lag of a group is concentrated (a row of `SKEW`)."""
    words = VERDICTS.get(row["verdict"], "no lag is known")
    if row["verdict"] is None or not row["unknown_lags"]:
        return words
    of = counted(row["partitions"], "share partition")
    return f"{words} (it is unknown in {row['unknown_lags']:,} of {of})"


def skew_arrow(
    lag: Arrow,
    members: Arrow | None = None,
    groups: Arrow | None = None,
    observed: Arrow | None = None,
    past: Arrow | None = None,
) -> pa.RecordBatch:
    """Return where the lag of each group concentrates, as `SKEW`, sorted by group.

    Parameters are those of `sharelag.metrics.load_per_item.partition_loads`. Data skew needs
    ``past``, the others need ``members``.
    """
    partitions = partition_loads(lag, members, groups, observed, past)
    if partitions.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=SKEW)
    g = _Groups(partitions)
    columns = g.of_partitions()
    if members is not None:
        columns |= g.of_members(member_loads(partitions, members))
    unknown = np.full(g.size, np.nan)
    figure = {field.name: columns.get(field.name, unknown) for field in SKEW}
    crowding = {
        STARVATION: figure["starved_lag"] - figure["starved_partitions"],
        ASSIGNMENT_SKEW: np.where(
            columns.get("uneven_partitions", unknown) >= 2,
            figure["loaded_lag"] - figure["loaded_members"],
            np.nan,
        ),
        DATA_SKEW: np.where(
            figure["busy_arrived"] - figure["busy_partitions"] >= _ARRIVALS_EXCESS,
            figure["busy_lag"] - figure["busy_partitions"],
            np.nan,
        ),
    }
    excess = np.stack(list(crowding.values()), axis=1)
    excess = np.where(excess >= EXCESS - 1e-9, excess, -np.inf)  # NaN, too
    order = np.argsort(-excess, axis=1, kind="stable")
    holds = np.take_along_axis(excess, order, axis=1) > 0
    named = np.array(list(crowding))[order]
    cases: list[tuple[_Bools, Any]] = [
        (figure["lag"] == 0, NO_LAG),
        (figure["members"] == 0, NO_MEMBERS),
        (holds[:, 0], named[:, 0]),
        (figure["lag_hoover"] >= EXCESS, UNEVEN),
    ]
    verdict = np.select([case for case, _ in cases], [name for _, name in cases], EVEN)
    arrays = {name: pa.array(values, from_pandas=True) for name, values in figure.items()}
    arrays |= {
        "group_id": g.ids,
        "findings": lists_of(holds.sum(axis=1), pa.array(named[holds], pa.string())),
        "verdict": pa.array(verdict, pa.string(), mask=np.isnan(figure["lag"])),
        "as_of": g.as_of,
    }
    return batch_of(arrays, SKEW).sort_by("group_id")


class _Groups:
    """Sums and shares for each group."""

    def __init__(self, partitions: pa.Table) -> None:
        encoded = flat(partitions.column("group_id")).dictionary_encode()
        self.ids, self.size = encoded.dictionary, len(encoded.dictionary)
        self.code: _Ints = encoded.indices.to_numpy().astype(np.int64)
        first = pa.table({"code": self.code, "as_of": partitions.column("as_of")}).group_by("code")
        self.as_of = flat(first.aggregate([("as_of", "min")]).sort_by("code").column("as_of_min"))
        self.lag, self.arrived, self.finished, self.members = (
            floats(partitions.column(name)) for name in ("lag", "arrived", "finished", "members")
        )

    def of_partitions(self) -> dict[str, _Floats | _Ints]:
        spread = spread_columns(self.lag, self.code, self.size)
        busy = self._above(self.arrived, self.code)
        starved = self._above(-self.members, self.code)
        # Shares are among partitions with a lag, so that they are comparable.
        one = np.where(np.isnan(self.lag), np.nan, 1.0)
        unattended = np.where(np.isnan(self.members), np.nan, self.members == 0)
        return {
            "lag": spread.total,
            "lag_gini": spread.gini,
            "lag_max_mean": spread.max_mean,
            "lag_hoover": spread.hoover,
            "partitions": spread.items,
            "unknown_lags": spread.unknown,
            "busy_partitions": self._part(busy, one, self.arrived, self.code),
            "busy_arrived": self._part(busy, self.arrived * one, self.arrived, self.code),
            "busy_lag": self._part(busy, self.lag, self.arrived, self.code),
            "finished_gini": spread_columns(self.finished, self.code, self.size).gini,
            "unattended_partitions": known_sums(unattended, self.code, self.size),
            "starved_partitions": self._part(starved, one, self.members, self.code),
            "starved_lag": self._part(starved, self.lag, self.members, self.code),
        }

    def of_members(self, loads: pa.Table) -> dict[str, _Floats | _Ints]:
        position = pc.index_in(flat(loads.column("group_id")), self.ids)
        code = position.drop_null().to_numpy().astype(np.int64)
        known = loads.filter(position.is_valid())
        partitions, lag = floats(known.column("partitions")), floats(known.column("lag"))
        one = np.where(np.isnan(lag), np.nan, 1.0)
        spread = spread_columns(partitions, code, self.size)
        loaded = self._above(partitions, code)
        is_known = ~np.isnan(known_sums(self.members, self.code, self.size))
        idle = np.bincount(code[partitions == 0], minlength=self.size)
        return {
            "members": np.where(is_known, spread.items, np.nan),
            "idle_members": np.where(is_known, idle, np.nan),
            "max_partitions": spread.max,
            "uneven_partitions": spread.max - spread.min,
            "loaded_members": self._part(loaded, one, partitions, code),
            "loaded_lag": self._part(loaded, lag, partitions, code),
        }

    def _above(self, values: _Floats, code: _Ints) -> _Bools:
        """Whether values exceed the mean of their group by more than rounding errors."""
        number = np.bincount(code[~np.isnan(values)], minlength=self.size)
        mean = known_sums(values, code, self.size) / np.maximum(number, 1)
        return np.asarray(values - mean[code] > 1e-9 * np.abs(mean[code]))

    def _part(self, chosen: _Bools, weight: _Floats, shown_by: _Floats, code: _Ints) -> _Floats:
        """Return the share of the weight of the chosen, among those with a known choice."""
        known = ~np.isnan(shown_by) & ~np.isnan(weight)
        whole = known_sums(np.where(known, weight, np.nan), code, self.size)
        part = known_sums(np.where(known, weight * chosen, np.nan), code, self.size)
        return part / np.where(whole > 0, whole, np.nan)
