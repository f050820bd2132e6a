"""What is waited in vain for silent brokers is one timeout, over all requests together."""

from __future__ import annotations

import time
from concurrent.futures import Future

import pytest

from sharelag.errors import BrokerUnreachableError
from sharelag.sources.kafka.client import Connection
from sharelag.sources.kafka.config import client_config
from sharelag.sources.kafka.patience import GRACE, LEAST, Patience


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_was_lost_is_taken_from_the_next_request_and_comes_back() -> None:
    clock = Clock()
    patience = Patience(10, clock)
    assert patience.left() == 10
    clock.now += 500  # answered, however late
    assert patience.left() == 10
    patience.lose(4)
    clock.now += 3
    assert patience.left() == 6 + GRACE
    patience.lose(6)
    clock.now += 9
    assert patience.left() == GRACE  # enough to reach a broker that is well
    patience.lose(GRACE)
    assert patience.left() == LEAST
    patience.lose(LEAST)
    clock.now += 9  # less than a timeout after the last loss
    assert patience.left() == LEAST
    clock.now += 2
    assert patience.left() == 10


def test_several_requests_that_nobody_answers_cost_one_timeout() -> None:
    config = client_config("127.0.0.1:1", None, {}, timeout=1.0)
    waits = []
    for _ in range(5):
        before = time.monotonic()
        with pytest.raises(BrokerUnreachableError):
            Connection(config).result(Future[int](), "orders")
        waits.append(time.monotonic() - before)
    assert waits[0] >= 1.0
    assert max(waits[2:]) < waits[0]
    assert config.patience.left() == LEAST


def test_an_attempt_ends_for_all_its_requests_together() -> None:
    config = client_config("127.0.0.1:1", None, {}, timeout=60.0)
    connection = Connection(config, 0.5)
    assert connection.within <= 0.5
    with pytest.raises(BrokerUnreachableError):
        connection.result(Future[int](), "orders")
    assert connection.within == LEAST
