"""Assertions about some fields of a row."""

from collections.abc import Mapping
from typing import Any


def assert_fields(row: Mapping[str, Any], **expected: Any) -> None:
    """Assert that a row has these values; a failure shows all of them beside each other."""
    assert {name: row[name] for name in expected} == expected
