"""Settings of share groups on brokers, groups and clients, and their effective values. No I/O."""

from sharelag.model.settings.catalogue import CATALOGUE, DRAFT, LATER, Setting, catalogue
from sharelag.model.settings.force import (
    Value,
    each_in_force,
    effective,
    in_force,
    lint_consumer,
    unknown_properties,
)
from sharelag.model.settings.rules import Problem, check, check_all, differing, parse

__all__ = [
    "CATALOGUE",
    "DRAFT",
    "LATER",
    "Problem",
    "Setting",
    "Value",
    "catalogue",
    "check",
    "check_all",
    "differing",
    "each_in_force",
    "effective",
    "in_force",
    "lint_consumer",
    "parse",
    "unknown_properties",
]
