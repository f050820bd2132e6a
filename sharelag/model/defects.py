"""Defects of share groups in releases of Kafka, each with its issue and the releases that fix it.

Versions are those of the issue, of its pull requests and their backports, and of Kafka's own
classes if a test checks them. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from sharelag.model.versions import NEWEST, version_of

_PULLS = "https://github.com/apache/kafka/pull"


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect of brokers.

    ``issue`` is the name in Kafka's tracker, or a pull request without an issue; ``effect`` is the
    visible effect; ``advice`` is the remedy until the brokers are upgraded. ``since`` is the first
    version known to have it, ``fixed`` the first version of each release that does not; empty: none
    yet. ``cause`` is the cause of `sharelag explain` that shows it in records; empty if records
    never show it.
    """

    issue: str
    url: str
    effect: str
    advice: str
    since: str
    fixed: tuple[str, ...]
    cause: str = ""

    def affects(self, version: str) -> bool | None:
        """Return whether a version has the defect; None if unknown, or if only some patches do."""
        given = version_of(version)
        is_newer = given[:2] > version_of(NEWEST)[:2]  # than the releases whose defects are known
        if given < version_of(FIRST) or (is_newer and not self.fixed):
            return None
        if len(given) == 2:
            first, last = self._has((*given, 0)), self._has((*given, _NO_PATCH))
            return first if first == last else None
        return self._has(given)

    def _has(self, given: tuple[int, ...]) -> bool:
        if given < version_of(self.since):
            return False
        fixes = sorted(map(version_of, self.fixed))
        if not fixes:
            return True
        same = [fix for fix in fixes if fix[:2] == given[:2]]
        return given < same[0] if same else given < fixes[-1]

    @property
    def fixed_in(self) -> str:
        """``4.2.1 and 4.3.0``, or ``no release yet``."""
        return " and ".join(self.fixed) or "no release yet"


_NO_PATCH = 1_000_000
#: The first release whose defects are known.
FIRST = "4.1"

#: By severity.
DEFECTS = (
    Defect(
        "KAFKA-20505", f"{_PULLS}/22126",
        "fetches and acknowledgements of share groups hang on a broker until it is restarted: two "
        "of its threads wait for each other's lock",
        "restart the broker that hangs, and upgrade", "4.2.0", ("4.2.1", "4.3.0"),
    ),
    Defect(
        "apache/kafka#20153", f"{_PULLS}/20651",
        "a failed write of state is rolled back under a lock that a waiting fetch needs, so "
        "fetches of a share partition can hang",
        "restart the broker that hangs, and upgrade", "4.1.0", ("4.1.1", "4.2.0"),
    ),
    Defect(
        "apache/kafka#23074", f"{_PULLS}/23074",
        "a write that arrives late moves a start offset back, so records can be delivered again "
        "when another leader takes over",
        "make consumers tolerate duplicates, and upgrade", "4.1.0", ("4.4.0",), "start_went_back",
    ),
    Defect(
        "apache/kafka#23112", f"{_PULLS}/23112",
        "a write that arrives late lowers the delivery complete count, so Kafka's lag is too high "
        "until the next write",
        "rely on the effective lag, and upgrade", "4.2.0", ("4.4.0",), "count_regressed",
    ),
    Defect(
        "apache/kafka#23190", f"{_PULLS}/23190",
        "a request to initialise state that arrives twice replaces the state that was written in "
        "between, and the start offset goes back: finished records can be delivered again",
        "make consumers tolerate duplicates", "4.1.0", (),
    ),
    Defect(
        "KAFKA-20910", f"{_PULLS}/23147",
        "a reset of offsets does not raise the epoch of the group, so the state of another reset "
        "can have the same epoch, and late requests of the earlier one are not refused",
        "reset offsets of groups that have had no member for a while", "4.1.0", (),
    ),
    Defect(
        "KAFKA-19953", f"{_PULLS}/21050",
        "records of a member that left can stay acquired until their locks expire, where another "
        "member holds records of the same batch",
        "wait for the lock duration, and upgrade", "4.1.0", ("4.2.0",),
    ),
    Defect(
        "KAFKA-20034", f"{_PULLS}/21246",
        "the lag is unknown after a reset of offsets until a member acknowledges",
        "let a member consume, or upgrade", "4.2.0", ("4.3.0",),
    ),
    Defect(
        "KAFKA-19695", f"{_PULLS}/20516",
        "a partition of __share_group_state is not pruned beyond the state of a deleted topic, so "
        "it grows",
        "watch its size with sharelag health, and upgrade", "4.1.0", ("4.1.1", "4.2.0"),
    ),
    Defect(
        "KAFKA-21096", f"{_PULLS}/23464",
        "gauges of share partitions keep showing an earlier load, and brokers keep its memory",
        "give --broker-metrics two readings, and upgrade", "4.1.0", ("4.2.2", "4.3.2", "4.4.0"),
    ),
)  # fmt: skip
#: The defect that a cause of `sharelag explain` shows.
BY_CAUSE = {defect.cause: defect for defect in DEFECTS if defect.cause}


def is_affected(issue: str, version: str | None) -> bool | None:
    """Return whether a version has an issue's defect; None as for `Defect.affects`."""
    (defect,) = (one for one in DEFECTS if one.issue == issue)
    return None if version is None else defect.affects(version)


def known_defects(version: str) -> list[tuple[Defect, bool]] | None:
    """Return the defects of a version or a release; None if they are not known here.

    The second item of each pair is false if only some versions of the release have the defect.
    """
    if not version_of(FIRST) <= version_of(version)[:2] <= version_of(NEWEST):
        return None
    found = [(defect, defect.affects(version)) for defect in DEFECTS]
    return [(defect, has is True) for defect, has in found if has is not False]
