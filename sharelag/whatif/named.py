"""Scenarios by name."""

from __future__ import annotations

from collections.abc import Mapping

from sharelag.errors import InputError
from sharelag.whatif.gallery import pains, rules
from sharelag.whatif.scenario import Scenario

_MAKERS = {
    make.__name__.replace("_", "-"): make
    for make in (
        rules.walk,
        rules.in_flight,
        rules.crash_redelivery,
        rules.delivery_limit,
        rules.one_session,
        rules.new_group,
        rules.slow_producer,
        rules.stop_at_error,
        rules.gaps,
        rules.everybody_everywhere,
        pains.window_full,
        pains.crash_loop,
        pains.slow_work,
        pains.uneven,
        pains.burst,
        pains.idle_members,
        pains.retention_loss,
        pains.leader_change,
    )
}


def names() -> Mapping[str, str]:
    """The scenarios there are, and what each is about."""
    return {name: make().about for name, make in _MAKERS.items()}


def named(name: str) -> Scenario:
    """A scenario by its name.

    Raises
    ------
    InputError
        There is no scenario of that name.
    """
    if name not in _MAKERS:
        raise InputError(f"unknown scenario {name!r}: choose one of {', '.join(_MAKERS)}")
    return _MAKERS[name]()
