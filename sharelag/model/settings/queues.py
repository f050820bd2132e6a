"""Why brokers write no letters to the dead-letter queue of a group (KIP-1191)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sharelag.model.settings.rules import Problem, each_setting

if TYPE_CHECKING:
    import pyarrow as pa

_QUEUE = "errors.deadletterqueue"
#: The group setting that names the topic, and the related settings of topics and brokers.
TOPIC = f"{_QUEUE}.topic.name"
COPIES = f"{_QUEUE}.copy.record.enable"
ENABLED = f"{_QUEUE}.group.enable"
CREATED = f"{_QUEUE}.auto.create.topics.enable"
PREFIX = f"{_QUEUE}.topic.name.prefix"
#: The feature without whose second level brokers write no letters at all.
SHARE_VERSION = "share.version"
#: The source of `ENABLED` if the topic does not exist.
MISSING = "missing"
_LEGAL = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_PREFIX = re.compile(r"(?!__)[a-zA-Z0-9._-]{0,249}")


@dataclass(frozen=True)
class Queues:
    """Settings of dead-letter queues as far as they are known; unknown ones have no key.

    They are the topic of each group's queue, `ENABLED` of each topic with its source, and the
    settings of the brokers with `SHARE_VERSION`.
    """

    of_groups: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    brokers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: pa.Table) -> Queues:
        """Read `sharelag.schemas.SETTINGS`."""
        rows = [*each_setting(settings)]
        return cls(
            {entity: value for _, entity, name, value, _ in rows if name == TOPIC and value},
            {entity: (value, by) for _, entity, name, value, by in rows if name == ENABLED},
            {name: v for scope, _, name, v, _ in rows if scope == "broker" and v is not None},
        )

    def problem(self, topic: str) -> Problem | None:
        """Return the first reason why letters to a topic are lost; None if none is known.

        ``ShareGroupDLQStateManager.validateDlqTopic`` of Kafka 4.4.0: brokers accept these names,
        write nothing when a record is given up, and archive it.
        """
        level, prefix = self.brokers.get(SHARE_VERSION), self.brokers.get(PREFIX)
        created = self.brokers.get(CREATED)
        enabled, source = self.topics.get(topic, (None, None))
        if level is not None and int(level) < 2:
            why = f"brokers write no letters while {SHARE_VERSION} is {level}"
            hint = f"turn them on with kafka-features.sh upgrade --feature {SHARE_VERSION}=2"
        elif not is_topic_name(topic):
            why = f"no topic can be called {topic}, so letters are lost"
            hint = "name a topic of at most 249 letters, digits, dots, dashes and underscores"
        elif prefix and not topic.startswith(prefix):
            why = f"{topic} does not begin with {PREFIX} = {prefix}, so letters are lost"
            hint = "name a topic that does"
        elif source == MISSING and created != "true":
            why = f"the topic {topic} does not exist"
            hint = f"create it with {ENABLED}=true, since letters are lost until it exists"
            hint += f" ({CREATED} is {created or 'not known'})"
        elif source != MISSING and enabled == "false":
            why = f"brokers write no letters to {topic}"
            hint = f"set its {ENABLED} to true"
        else:
            return None
        return Problem(TOPIC, topic, why, hint)

    def refusal(self, topic: str) -> str:
        """Return the problem as a sentence with what to do; empty if there is none."""
        found = self.problem(topic)
        return f"{found.why}: {found.hint}" if found else ""

    def refusals(self, groups: Iterable[str]) -> dict[str, str]:
        """Return the sentences of those groups whose queue takes no letters."""
        named = {group: self.of_groups[group] for group in groups if group in self.of_groups}
        by_group = {group: self.refusal(topic) for group, topic in named.items()}
        return {group: words for group, words in by_group.items() if words}

    def unknown(self) -> list[str]:
        """Return the topics that may or may not exist."""
        return sorted(set(self.of_groups.values()) - self.topics.keys())


def is_topic_name(text: str) -> bool:
    """Return whether a text is a legal name of a topic (``Topic.validate``)."""
    return _LEGAL.fullmatch(text) is not None


def begins_a_name(prefix: str) -> bool:
    """Return whether a queue's name, legal and not one of Kafka's own, can begin with it."""
    return _PREFIX.fullmatch(prefix) is not None


def queues_of(values: Mapping[str, object]) -> list[str]:
    """Return the topic that a group's settings name as its queue, if such a topic can exist."""
    topic = str(values.get(TOPIC) or "")
    return [topic] if is_topic_name(topic) else []
