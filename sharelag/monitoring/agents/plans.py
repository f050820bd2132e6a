"""Settings in force, and what would be if offsets were reset or deleted; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.monitoring.agents.answers import answer_of, plan_in_words, settings_in_words
from sharelag.monitoring.agents.asked import AskedOf
from sharelag.monitoring.agents.parameters import (
    Ago,
    AnyGroup,
    Given,
    Group,
    KafkaVersion,
    LogEnd,
    Offset,
    Shift,
    TopicNames,
    Topics,
    Written,
)
from sharelag.replay.moment import parse_time
from sharelag.workbench.deletions import not_simulated
from sharelag.workbench.result import Result

# Empty lists and mappings are defaults, since agents read a tool's defaults in its schema.

_TARGETS = "to, to_offset, to_time, ago or shift_by"


class PlanTools(AskedOf):
    """Questions about settings, resets and deletions of one input."""

    def settings(self, group: AnyGroup = None, given: Given = {}) -> dict[str, Any]:  # noqa: B006
        """Give the settings in force, where they come from, and what conflicts.

        ``given`` are values to check as if they were set. Kafka's command that sets what Kafka
        accepts of them is among the notes; it is not run.
        """
        result = self.now().settings(group, given)
        return answer_of(result, "Which settings are in force?", *settings_in_words(result.table))

    def plan_reset(
        self,
        group: Group,
        to: LogEnd = None,
        to_offset: Offset = None,
        to_time: Written = None,
        ago: Ago = None,
        shift_by: Shift = None,
        topics: Topics = [],  # noqa: B006
        kafka_version: KafkaVersion = None,
    ) -> dict[str, Any]:
        """Say what a reset of a group's start offsets would do. Nothing is written.

        Give exactly one of to, to_offset, to_time, ago and shift_by. For each share partition: the
        new start offset and lag, what would be delivered again, and what would be skipped. Kafka's
        command is among the notes; it is not run.
        """
        targets = (
            to,
            to_offset,
            None if to_time is None else parse_time(to_time),
            None if ago is None else parse_duration(ago),
        )
        given = [target for target in targets if target is not None]
        if len(given) + (shift_by is not None) != 1:
            raise InputError(f"choose one of {_TARGETS}")
        target = given[0] if given else None
        result = self.now().plan_reset(
            group, target, shift_by=shift_by, topic=topics, kafka_version=kafka_version
        )
        return _planned(result, "plan-reset")

    def plan_delete(
        self,
        group: Group,
        topics: TopicNames = [],  # noqa: B006
        kafka_version: KafkaVersion = None,
    ) -> dict[str, Any]:
        """Say what a deletion of a group, or of its offsets, would do. Nothing is written.

        For each share partition: where members that come back would begin, what would be delivered
        again, and what would be skipped. Kafka's command is among the notes; it is not run.
        """
        result = self.now().plan_delete(group, topics, kafka_version=kafka_version)
        return _planned(result, "plan-delete")


def _planned(result: Result, command: str) -> dict[str, Any]:
    """Give a plan; only the command simulates what follows, as that can take minutes."""
    here = not_simulated(f"`sharelag {command} --simulate`")
    notes = (here if note == not_simulated() else note for note in result.notes)
    result = replace(result, notes=tuple(notes))
    return answer_of(result, result.title, plan_in_words(result.table))
