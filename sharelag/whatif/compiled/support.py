"""Which scenarios the compiled loop runs; the readable loop runs all."""

from __future__ import annotations

from sharelag.whatif.compiled.sizes import records_of, words
from sharelag.whatif.scenario import Member, Scenario, Topic

#: From this many records on it pays to load the compiled loop, which takes a second, or half a
#: minute when it is compiled for the first time on a machine.
COMPILED_FROM = 100_000
#: Words of memory (8 bytes) that a compiled run may take.
_MOST_WORDS = 1 << 25


def is_compiled(scenario: Scenario) -> bool:
    """Whether the compiled loop runs a scenario: it can, and the scenario is large enough."""
    return records_of(scenario) >= COMPILED_FROM and why_not(scenario) is None


def why_not(scenario: Scenario) -> str | None:
    """Say why a scenario needs the readable loop; None: the compiled one runs it, too."""
    reasons = [_why_not_at_all(scenario)]
    reasons += [_why_not_topic(topic) for topic in scenario.topics]
    reasons += [_why_not_member(member) for member in scenario.members]
    reason = next((reason for reason in reasons if reason), None)
    if reason is None and words(scenario) > _MOST_WORDS:
        return "its windows and members take too much memory"
    return reason


def _why_not_at_all(scenario: Scenario) -> str | None:
    if scenario.faults:
        return "it has faults"
    if scenario.poison:
        return "it has poison records"
    if scenario.autoscaler is not None:
        return "it has an autoscaler"
    if scenario.brokers > 1:
        return "it has several brokers"
    if any(producer.transaction_batches for producer in scenario.producers):
        return "a producer uses transactions"
    return None


def _why_not_topic(topic: Topic) -> str | None:
    if topic.retention_ms is not None or topic.compact_ms is not None:
        return f"records of topic {topic.name!r} are deleted or compacted"
    if topic.added_ms:
        return f"partitions are added to topic {topic.name!r}"
    for start in topic.starts:
        window = start.window
        if start.missing:
            return f"topic {topic.name!r} has been compacted"
        if window is not None and window.batches:
            return f"the group has records of topic {topic.name!r} in flight"
        if window is not None and 0 <= window.start_offset < start.log_start_offset:
            return f"records of topic {topic.name!r} were deleted before they were finished"
        if window is not None and (window.start_offset > start.end_offset):
            return f"the group is ahead of topic {topic.name!r}"
    return None


def _why_not_member(member: Member) -> str | None:
    behaviour = member.behaviour
    if behaviour.crash or behaviour.hang:
        return f"member {member.name!r} may crash or hang"
    if behaviour.renew_ms is not None:
        return f"member {member.name!r} renews locks"
    if behaviour.commit == "error":
        return f"member {member.name!r} commits after errors"
    return None
