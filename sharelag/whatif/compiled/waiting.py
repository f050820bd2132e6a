"""Fetches that wait: a list for each place, in the order of their coming."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import part
from sharelag.whatif.compiled.layout import (
    FETCH_DONE,
    FETCHED,
    FETCHED_AT,
    HEAD,
    INDEX,
    MEMBER_INDEX,
    NODE_OF_PLACE,
    NODES_AT,
    PLACES,
    TAIL,
)


@part
def node_of(a: Any, m: Any, p: Any) -> Any:
    """Where it is noted whether a member waits for a place, and who does before and after it."""
    return a[NODES_AT] + (a[m + MEMBER_INDEX] * a[PLACES] + a[p + INDEX]) * NODE_OF_PLACE


@part
def wait(a: Any, m: Any, p: Any) -> None:
    """Let a fetch wait for a place, after all others."""
    node = node_of(a, m, p)
    if a[node]:
        return
    a[node], a[node + 1], a[node + 2] = 1, a[p + TAIL], 0
    if a[p + TAIL]:
        a[node_of(a, a[p + TAIL], p) + 2] = m
    else:
        a[p + HEAD] = m
    a[p + TAIL] = m


@part
def forget(a: Any, m: Any) -> None:
    """A fetch waits no more."""
    a[m + FETCH_DONE] = 1
    for number in range(a[m + FETCHED]):
        p = a[a[m + FETCHED_AT] + number]
        node = node_of(a, m, p)
        if not a[node]:
            continue
        before, after = a[node + 1], a[node + 2]
        a[node] = 0
        if before:
            a[node_of(a, before, p) + 2] = after
        else:
            a[p + HEAD] = after
        if after:
            a[node_of(a, after, p) + 1] = before
        else:
            a[p + TAIL] = before
