"""How brokers are waited for, and which client reads from them."""

import gc
import logging
import pickle
import subprocess
import sys
import time
import weakref
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, libversion

import sharelag
from sharelag.errors import BrokerUnreachableError, ConfigError, NoLeaderError, TopicMissingError
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka import fetch, native
from sharelag.inputs.kafka.client import Connection, Failed, Taken, until_answered
from sharelag.inputs.kafka.config import GRACE, LEAST, ClientConfig, Patience, client_config
from sharelag.inputs.kafka.failures import silence_error
from sharelag.inputs.kafka.records import until_done


def answer(offset: int) -> Future[Any]:
    answer = Future[Any]()
    answer.set_result(SimpleNamespace(offset=offset))
    return answer


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


def test_late_answers_count_once_others_did_not_come() -> None:
    clock = Clock()
    patience = Patience(10, clock)
    patience.note_answer(9)
    assert patience.left() == 10
    patience.lose(4)
    patience.note_answer(LEAST)  # brokers that are well answer within it
    assert patience.left() == 6 + GRACE
    patience.note_answer(3)
    assert patience.left() == 3 + GRACE
    clock.now += 11
    patience.note_answer(9)
    assert patience.left() == 10


def test_several_requests_that_nobody_answers_cost_one_timeout() -> None:
    config = client_config("127.0.0.1:1", None, {}, timeout=2.0)
    config.patience.clock = lambda: 0.0  # a pause of the machine gives no time back
    waits = []
    for _ in range(4):
        before = time.monotonic()
        with pytest.raises(BrokerUnreachableError):
            Connection(config).result(Future[int](), "orders")
        waits.append(time.monotonic() - before)
    assert waits[0] >= 2.0
    assert min(waits[2:]) < 2.0
    assert config.patience.left() == LEAST


def test_an_attempt_ends_for_all_its_requests_together() -> None:
    config = client_config("127.0.0.1:1", None, {}, timeout=60.0)
    connection = Connection(config, 0.5)
    assert connection.within <= 0.5
    with pytest.raises(BrokerUnreachableError):
        connection.result(Future[int](), "orders")
    assert connection.within == LEAST


def test_what_an_answering_leader_was_waited_for_beside_a_silent_one_is_lost() -> None:
    config = client_config("127.0.0.1:1", None, {}, timeout=20.0)
    connection = Connection(config)
    connection.note_requests()
    time.sleep(GRACE + 0.3)
    assert connection.result(answer(5), "orders").offset == 5
    assert config.patience.left() == 20
    connection.result(answer(OFFSET_INVALID), "orders")
    left = config.patience.left()
    assert left < 20 - 0.25
    connection.result(answer(OFFSET_INVALID), "orders")  # at the same time: it costs nothing more
    assert config.patience.left() > left - GRACE


def test_who_reached_brokers_once_says_what_these_said() -> None:
    config = client_config("127.0.0.1:1", None, {}, timeout=0.7)
    said = [NoLeaderError("partition 3 is silent"), BrokerUnreachableError("nobody")]

    def ask(_: Connection) -> int:
        time.sleep(0.15)
        raise said.pop(0) if len(said) > 1 else said[0]

    with pytest.raises(NoLeaderError, match="partition 3"):
        until_answered(config, ask)


@pytest.mark.parametrize(
    ("where", "names"), [("10.0.0.7:9092/3", True), ("one:9092/3", False), ("two:9092/3", False)]
)
def test_a_broker_is_said_to_be_named_only_where_nobody_asked_it(where: str, names: bool) -> None:
    config = client_config("PLAINTEXT://one:9092, two:9092", None, {}, timeout=0.7)
    silent = KafkaError(KafkaError._TRANSPORT, f"{where}: Connection refused")
    config.patience.answered_client = object()
    said = str(silence_error(config, "offsets", silent))
    assert ("named broker 3 at 10.0.0.7:9092, which was not reached" in said) == names
    assert ("other requests were: a broker is down" in said) != names


def test_a_new_client_that_reaches_nobody_does_not_speak_for_the_others() -> None:
    """A question has several clients; a busy machine may leave one no time to log in."""
    bench = sharelag.open("127.0.0.1:1", timeout=0.6)
    asked, again = bench.source, bench.refresh().source
    assert isinstance(asked, KafkaInput)
    assert isinstance(again, KafkaInput)
    config = asked.config
    assert Connection(config).result(answer(5), "orders").offset == 5
    words = r"the cluster was not answered at .* other requests were"
    with pytest.raises(NoLeaderError, match=words):
        Connection(config).describe_cluster()
    config.patience.lose(2)
    # A consumer is a new client each time, and has the time that logging in takes.
    heard, begun = list[KafkaError](), time.monotonic()
    with pytest.raises(NoLeaderError, match=r"records was not answered at .* other requests were"):
        list(until_done(_OfNoLeader(), config, heard, lambda: False, 10))
    assert time.monotonic() - begun > 0.6
    with pytest.raises(BrokerUnreachableError, match="no broker answered"):
        Connection(again.config).describe_cluster()


class _OfNoLeader:
    """A client that hears only from the coordinator of its group, which it has no rights on."""

    at_once = 100

    def __init__(self) -> None:
        error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
        self.refused = SimpleNamespace(error=lambda: error)

    def assign(self, _: object) -> None: ...

    def close(self) -> None: ...

    def consume(self, _: int, timeout: float) -> list[Any]:
        time.sleep(min(timeout, 0.02))
        return [self.refused]

    def take(self, _: int, timeout: float) -> Taken:
        time.sleep(min(timeout, 0.02))
        return Taken(None, [Failed(self.refused.error(), -1, -1001)])


def test_refused_coordinators_do_not_prolong_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rights on a group the client hears of that again and again, whoever leads."""
    monkeypatch.setattr(fetch, "_client", lambda *_: _OfNoLeader())
    config = client_config("127.0.0.1:1", None, {}, timeout=0.3)
    with pytest.raises(NoLeaderError, match="partition 0 of orders did not answer"):
        list(fetch.read_ranges(config, "orders", {0: (0, 5)}))
    heard: list[KafkaError] = []
    config = client_config("127.0.0.1:1", None, {}, timeout=0.3)
    with pytest.raises(BrokerUnreachableError):
        list(until_done(_OfNoLeader(), config, heard, lambda: False, 10))


def test_a_client_that_was_answered_is_used_again_only_while_time_is_lost() -> None:
    """A new client may not have logged in within the little time that is left."""
    config = client_config("127.0.0.1:1", None, {}, timeout=2.0)
    config.patience.clock = lambda: 0.0
    first = Connection(config)
    assert first.result(answer(5), "orders").offset == 5
    assert Connection(config).admin is not first.admin
    config.patience.lose(2.5)
    with pytest.raises(NoLeaderError, match=r"orders was not answered at .* other requests were"):
        first.result(Future[Any](), "orders")
    assert Connection(config).admin is first.admin
    assert Connection(config, within=0.5).admin is not first.admin  # it has to learn who leads
    with pytest.raises(NoLeaderError, match="other requests were"):
        until_answered(config, lambda connection: connection.result(Future[int](), "orders"))
    used: list[Connection] = []

    def ask(connection: Connection) -> int:
        used.append(connection)
        connection.shared.is_answered = len(used) == 2
        raise BrokerUnreachableError("nobody") if len(used) < 3 else TopicMissingError("none")

    with pytest.raises(TopicMissingError):
        until_answered(config.renew(), ask)
    # It may still log in; who was answered has to learn who leads now.
    assert used[1].admin is used[0].admin
    assert used[2].admin is not used[1].admin
    assert Connection(config.renew()).admin is not first.admin
    assert config.renew().patience.left() == 2.0
    assert pickle.loads(pickle.dumps(config)).patience.known is None


def test_a_client_ends_with_its_last_use_although_an_answer_was_an_error() -> None:
    """An exporter asks all day: each client has a thread and a connection for every broker."""

    def ask() -> weakref.ref[Any]:
        connection, missing = Connection(client_config("127.0.0.1:1")), Future[Any]()
        missing.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        with suppress(TopicMissingError):
            connection.result(missing, "orders")
        return weakref.ref(connection.shared)

    gc.disable()
    try:
        assert ask()() is None
    finally:
        gc.enable()


_ADDRESS = {"bootstrap.servers": "127.0.0.1:1"}
_LOGGER = logging.getLogger("sharelag.librdkafka")


def test_the_library_is_the_clients_own() -> None:
    assert native.library().rd_kafka_version() == libversion()[1]


@pytest.mark.parametrize(
    ("settings", "usable"),
    [
        ({}, True),
        ({"sasl.mechanism": "SCRAM-SHA-256", "socket.keepalive.enable": True}, True),
        ({"sasl.mechanism": "OAUTHBEARER"}, False),
        ({"oauth_cb": print}, False),
    ],
)
def test_what_only_the_client_can_do_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], usable: bool
) -> None:
    monkeypatch.setattr(_LOGGER, "handlers", [logging.NullHandler()])  # pytest adds some
    assert native.is_usable(ClientConfig(_ADDRESS | settings)) is usable


def test_who_wants_the_log_gets_the_client_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_LOGGER, "handlers", [logging.NullHandler()])
    assert native.is_usable(ClientConfig(_ADDRESS))
    _LOGGER.addHandler(logging.NullHandler())
    assert not native.is_usable(ClientConfig(_ADDRESS))


def test_another_version_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "libversion", lambda: ("3.0.0", 0x030000FF))
    native.library.cache_clear()
    try:
        assert native.library() is None
    finally:
        native.library.cache_clear()


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match=r"rejected the settings.*fetch\.wait"):
        native.NativeMessages(ClientConfig(_ADDRESS | {"fetch.wait": "1"}), "topic", [])


#: librdkafka brings a cluster of its own for tests; the kernel is missing when messages are there.
_INTERRUPTED = """
from confluent_kafka import Producer
from sharelag.inputs.kafka import fetch, native
from sharelag.inputs.kafka.config import ClientConfig

producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "-", "log_level": 0})
broker = next(iter(producer.list_topics(timeout=30).brokers.values()))
for _ in range(20_000):
    producer.produce("topic", key=b"k", value=b"v" * 50, partition=0)
    producer.poll(0)
producer.flush(60)

def interrupt(_):
    raise KeyboardInterrupt

native.compile_kernel = interrupt
config = ClientConfig({"bootstrap.servers": f"{broker.host}:{broker.port}"}, 30.0)
try:
    list(fetch.read_ranges(config, "topic", {0: (0, 20_000)}))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_reading_that_is_interrupted_ends() -> None:
    """The library waits for every message that it handed out, so all are given back."""
    command = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr
