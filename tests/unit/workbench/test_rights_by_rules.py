"""Rights of somebody else: what brokers show of an authorizer decides what can be said of them."""

from collections import Counter

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.kafka.rights import Authorizer
from sharelag.metrics.rights import NO, UNKNOWN, YES
from sharelag.workbench import rights

ALICE = {"principal": "User:alice", "acl_host": "*", "permission": "ALLOW"}
ORDERS = {"resource_type": "TOPIC", "pattern_type": "LITERAL", "resource": "orders"}
READS = ALICE | ORDERS | {"operation": "READ"}


def judged(
    monkeypatch: pytest.MonkeyPatch, found: Authorizer, super_users: list[str] | None = None
) -> tuple[Counter[str], str]:
    """How often each is said of alice's rights on one group and topic, and what is not known."""
    monkeypatch.setattr(rights, "authorizer", lambda _: found)
    source = KafkaInput(client_config("127.0.0.1:9"))
    table, unknown = rights.rights_of(source, ["g"], ["orders"], "User:alice", super_users)
    return Counter(table.column("granted").to_pylist()), " ".join(unknown)


def rules(*rows: dict[str, str]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schemas.ACLS)


def test_without_super_users_the_rules_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    said, unknown = judged(monkeypatch, Authorizer(rules(READS), False, False, True))
    assert (said[YES], said[UNKNOWN], unknown) == (2, 0, "")  # to read it, and to describe it
    none, unknown = judged(monkeypatch, Authorizer(rules(), False, False, True))
    assert (set(none), unknown) == ({NO}, "")


def test_super_users_that_brokers_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = Authorizer(rules(READS), True, False, True)
    said, unknown = judged(monkeypatch, hidden)
    assert (said[YES], said[NO]) == (2, 0)
    assert "whether the principal is a super user" in unknown
    said, unknown = judged(monkeypatch, hidden, ["User:admin"])
    assert (said[YES], said[UNKNOWN], unknown) == (2, 0, "")
    said, unknown = judged(monkeypatch, hidden, ["User:alice"])
    assert (set(said), unknown) == ({YES}, "")


def test_what_no_rule_is_about_and_an_authorizer_that_lists_no_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said, unknown = judged(monkeypatch, Authorizer(rules(READS), False, True, True))
    assert "allow.everyone.if.no.acl.found" in unknown
    assert said[YES] == 2
    assert said[NO] == 1  # another right on the topic that a rule is about
    said, unknown = judged(monkeypatch, Authorizer(rules(), False, False, False))
    assert set(said) == {UNKNOWN}
    assert "whether the authorizer has rules" in unknown
