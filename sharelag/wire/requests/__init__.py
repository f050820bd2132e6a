"""Requests of share groups as a broker's log has them, and their schemas as data."""

from __future__ import annotations

from sharelag.wire.requests.of_brokers import OF_BROKERS
from sharelag.wire.requests.of_clients import OF_CLIENTS
from sharelag.wire.requests.part import Api, Part

__all__ = ["APIS", "OF_BROKERS", "OF_CLIENTS", "Api", "Part"]

#: Every kind of request that is about share groups alone.
APIS = (*OF_CLIENTS, *OF_BROKERS)
