"""Kafka's errors in words: one sentence, what to do, and the same words in messages and docs."""

from shlex import quote

from confluent_kafka import KafkaError

from sharelag import errors
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.kafka.failures import first_refusal, latest_reason, translate_error
from sharelag.model.kafka_errors import ANSWERS, ERRORS, Kind, in_words
from tools import errors_page

CONFIG = client_config("broker:9092")
RAISED = {Kind.REACH: errors.BrokerUnreachableError, Kind.LOGIN: errors.AuthenticationError}
RAISED |= {Kind.RIGHTS: errors.AuthorizationError, Kind.LEADERS: errors.NoLeaderError}


def test_the_client_library_has_the_same_codes() -> None:
    local = {code: error.name for code, error in ERRORS.items() if code < -1}
    assert local == {code: KafkaError(code).name() for code in local}


def test_every_error_is_one_clause_with_what_to_do() -> None:
    for error in ERRORS.values():
        assert error.meaning[0].islower() or error.meaning.startswith("READ")
        assert not error.meaning.endswith(".")
        assert "\n" not in error.meaning + error.advice
        assert len(error.advice) > len("read")
    names = [error.name for error in ERRORS.values()]
    assert len(set(names)) == len(names)


def test_every_answer_of_a_request_is_explained() -> None:
    named = {error.name for error in ERRORS.values()}
    assert set().union(*ANSWERS.values()) <= named


def test_messages_have_these_words() -> None:
    for code, known in ERRORS.items():
        raised = translate_error(KafkaError(code), "it's", CONFIG)
        assert known.advice.format(name=quote("it's")) in str(raised)
        assert known.kind not in RAISED or type(raised) is RAISED[known.kind], known.name


def test_the_error_that_says_why_is_shown() -> None:
    down, tls = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError._SSL)
    assert latest_reason([down, tls, down]) is tls
    assert latest_reason([down]) is down
    assert latest_reason([]) is None
    assert "the certificate names this host" in str(translate_error(tls, "orders", CONFIG))


def test_a_broker_that_goes_away_during_a_login_has_refused_nobody() -> None:
    """What the client library said while a broker was restarted: its code is that of refusals."""
    away = KafkaError(
        KafkaError._AUTHENTICATION,
        "sasl_ssl://b:1/bootstrap: SASL SCRAM-SHA-256 mechanism handshake failed: Local: Broker "
        "transport failure: broker's supported mechanisms: (n/a) (after 0ms in state DOWN)",
    )
    wrong = KafkaError(KafkaError._AUTHENTICATION, "b:1: SASL authentication error: invalid")
    assert first_refusal([away]) is None
    assert first_refusal([away, wrong]) is wrong
    assert isinstance(translate_error(away, "orders", CONFIG), errors.BrokerUnreachableError)
    assert isinstance(translate_error(wrong, "orders", CONFIG), errors.AuthenticationError)


def test_an_error_that_is_not_there_keeps_the_clients_words() -> None:
    code = KafkaError.PRODUCER_FENCED
    assert code not in ERRORS
    assert "PRODUCER_FENCED" in str(translate_error(KafkaError(code), "orders", CONFIG))
    assert in_words(code) == f"error {code}"


def test_the_page_has_them_all() -> None:
    page = errors_page.PAGE.read_text("utf-8")
    assert errors_page.written(page) == page, "run `python -m tools.errors_page`"
    for code, error in ERRORS.items():
        assert f"| `{error.name}` ({code}) | {error.meaning} |" in page


def test_a_broker_that_leaves_before_it_answers_is_away() -> None:
    """What ended `lag --watch` while all brokers were restarted, one by one."""
    left = translate_error(KafkaError(KafkaError._DESTROY_BROKER), "the list of topics", CONFIG)
    assert errors.are_away(left)
