"""Which scenarios the compiled loop runs; the readable loop runs all."""

from __future__ import annotations

from sharelag.model import Window
from sharelag.whatif.compiled.sizes import records_of, words
from sharelag.whatif.scenario import Member, Scenario, Topic

#: Records that one process simulates until it pays to load the compiled loop, which takes a second:
#: 20,000 take 2.3 s of a core in the readable loop, and 1.0 s with loading, 0.02 s without.
LOADED_FROM = 20_000
#: The same if it has to be compiled first, which takes some 36 s once on a machine.
COMPILED_FROM = 300_000
#: Records of a scenario from which on a compiled loop that is loaded pays.
_LEAST = 1_000
#: Words of memory (8 bytes) that a compiled run may take.
_MOST_WORDS = 1 << 25


_OF_BROKERS = ("leader_change", "broker_down")


class RecordsLostError(Exception):
    """Records were deleted before the group had finished them: only the readable loop does that."""


#: Records of this process so far, of scenarios that the compiled loop runs.
_so_far = 0
_is_loaded = False


def use_compiled(scenario: Scenario) -> bool:
    """Count a scenario that is to be run, and say whether the compiled loop runs it.

    It does if it can, and if there is enough to simulate. Many small runs are a large one: what a
    process has simulated so far counts. Nobody waits for the compiler before the readable loop has
    taken as long.
    """
    global _is_loaded, _so_far
    records = records_of(scenario)
    if records < _LEAST or why_not(scenario) is not None:
        return False
    _so_far += records
    if not _is_loaded and _so_far >= LOADED_FROM:
        # Only here: numba takes its time to load.
        from sharelag.whatif.compiled.ready import is_ready, make_ready

        _is_loaded = is_ready()
        if not _is_loaded and _so_far >= COMPILED_FROM:
            make_ready()
            _is_loaded = True
    return _is_loaded


def why_not(scenario: Scenario) -> str | None:
    """Say why a scenario needs the readable loop; None: the compiled one runs it, too.

    It gives up in the middle when records are deleted before they were finished
    (`RecordsLostError`), which a scenario does not show beforehand.
    """
    reasons = [_why_not_at_all(scenario)]
    reasons += [_why_not_topic(topic) for topic in scenario.topics]
    reasons += [_why_not_member(member) for member in scenario.members]
    reason = next((reason for reason in reasons if reason), None)
    if reason is None and words(scenario) > _MOST_WORDS:
        return "its windows and members take too much memory"
    return reason


def _why_not_at_all(scenario: Scenario) -> str | None:
    if any(fault.kind in _OF_BROKERS for fault in scenario.faults):
        return "it has faults of brokers"
    if scenario.autoscaler is not None:
        return "it has an autoscaler"
    if scenario.brokers > 1:
        return "it has several brokers"
    if any(producer.transaction_batches for producer in scenario.producers):
        return "a producer uses transactions"
    if any(start.open_from is not None for topic in scenario.topics for start in topic.starts):
        return "a transaction stays open"
    return None


def _why_not_topic(topic: Topic) -> str | None:
    if topic.compact_ms is not None:
        return f"topic {topic.name!r} is compacted"
    if topic.added_ms:
        return f"partitions are added to topic {topic.name!r}"
    for start in topic.starts:
        window = start.window
        if start.missing:
            return f"topic {topic.name!r} has been compacted"
        if window is not None and _has_holes(window, start.end_offset):
            return f"the group had records of topic {topic.name!r} with members"
        if window is not None and 0 <= window.start_offset < start.log_start_offset:
            return f"records of topic {topic.name!r} were deleted before they were finished"
        if window is not None and (window.start_offset > start.end_offset):
            return f"the group is ahead of topic {topic.name!r}"
    return None


def _has_holes(window: Window, end: int) -> bool:
    """Whether batches leave out offsets, or what is not in the log is in flight."""
    after = window.start_offset
    for batch in window.batches:
        if batch.first_offset != after:
            return True
        after = batch.last_offset + 1
    return bool(window.batches) and after > end


def _why_not_member(member: Member) -> str | None:
    behaviour = member.behaviour
    if behaviour.renew_ms is not None:
        return f"member {member.name!r} renews locks"
    return None
