"""Settings that Kafka accepts and that do not work on the brokers that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sharelag.model.settings.queues import CREATED, PREFIX, TOPIC, Queues, begins_a_name
from sharelag.model.settings.rules import Problem, value_in
from sharelag.model.versions import NEWEST

_FACTOR = "share.coordinator.state.topic.replication.factor"
_LEAST = "share.coordinator.state.topic.min.isr"


def cautions(
    values: Mapping[str, object],
    brokers: int | None,
    profile: str = NEWEST,
    queues: Queues | None = None,
) -> Iterator[Problem]:
    """Return what will go wrong with settings though Kafka accepts them.

    Settings that are not among ``values`` have Kafka's defaults; ``brokers`` is how many there are,
    ``queues`` what is known of the topics that groups name as dead-letter queues.

    ``AutoTopicCreationManager`` creates the state topic with the replication factor; a share
    coordinator writes with ``acks=all``, which ``min.insync.replicas`` refuses on too few replicas.
    """
    if topic := str(value_in(TOPIC, values, profile) or ""):
        known = queues or Queues(brokers={PREFIX: str(value_in(PREFIX, {}, profile) or "")})
        given = {name: str(values[name]).lower() for name in (CREATED,) if name in values}
        given |= {name: str(values[name]) for name in (PREFIX,) if name in values}
        if found := replace(known, brokers={**known.brokers, **given}).problem(topic):
            yield found
    prefix = str(value_in(PREFIX, values, profile) or "")
    if PREFIX in values and not begins_a_name(prefix):
        yield Problem(
            PREFIX,
            prefix,
            "no topic that groups may name can begin with it, so all letters are lost",
            "take letters, digits, dots, dashes and underscores, and not __ first",
        )
    factor, least = (value_in(name, values, profile) for name in (_FACTOR, _LEAST))
    # Kafka's defaults deserve no warning just because brokers hide their settings.
    if not isinstance(factor, int) or values.keys().isdisjoint((_FACTOR, _LEAST)):
        return
    if _FACTOR in values and brokers is not None and factor > brokers:
        yield Problem(
            _FACTOR,
            str(factor),
            f"it is more than the number of brokers, {brokers}: the state topic cannot be created",
            f"set it to at most {brokers}, or add brokers",
        )
    if isinstance(least, int) and least > factor:
        yield Problem(
            _LEAST,
            str(least),
            f"it is more than {_FACTOR} = {factor}: no write to the state topic succeeds",
            f"set it below {_FACTOR}, so that one replica may be away",
        )
