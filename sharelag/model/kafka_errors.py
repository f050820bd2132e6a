"""Kafka's errors in the context of share groups: what each means, and what to do.

Codes and names are those of ``org.apache.kafka.common.protocol.Errors``. Negative codes below -1
are librdkafka's own, for failures before any broker answered.
"""

from __future__ import annotations

from enum import Enum
from shlex import quote
from typing import NamedTuple


class Kind(Enum):
    """The subject of an error; the value is its heading."""

    REACH = "Brokers cannot be reached"
    LOGIN = "Logging in"
    RIGHTS = "Rights"
    MISSING = "Something does not exist"
    LEADERS = "Leaders move"
    COORDINATORS = "Coordinators"
    GROUPS = "Groups and members"
    SHARES = "Share sessions and deliveries"
    REQUESTS = "Requests and data"


class KafkaError(NamedTuple):
    """One error; its code and name are those of Kafka, or of librdkafka without its prefix.

    ``meaning`` is what happened, as a clause that follows a colon; ``advice`` is what to do, with
    ``{name}`` as a placeholder; see `what_to_do`.
    """

    code: int
    name: str
    kind: Kind
    meaning: str
    advice: str

    def what_to_do(self, name: str = "NAME") -> str:
        """Return the advice for a topic or group, with its name quoted for a shell."""
        return self.advice.format(name=quote(name))


def _grant(right: str, options: str) -> str:
    command = f"kafka-acls.sh --add --allow-principal User:YOU {options}"
    return f"grant {right}, for example {command}"


_ADDRESS = (
    "check the address, that the broker is running, and security.protocol in --command-config; "
    "--timeout waits longer"
)
_TLS = (
    "check that the listener speaks TLS, that ssl.truststore.location has the issuer of its "
    "certificate, and that the certificate names this host"
)
_LEADERS = "check it with kafka-topics.sh --describe --unavailable-partitions, and try again"
_USER = "check user, password and sasl.mechanism in --command-config"
_MECHANISM = "set sasl.mechanism to one in the broker's sasl.enabled.mechanisms"
_TOPIC = "check the spelling and the cluster"
_AGAIN = "try again: it resolves itself within seconds"
_CLIENT_DOES = "nothing: the client retries by itself"
_REJOINS = "nothing, if it is rare: the member rejoins by itself"
_CODEC = "check compression.type of the topic, and install a confluent-kafka wheel that has it"
_UPGRADE = "upgrade the brokers or the client: one of them is too old for this request"

#: Code, name, meaning and advice, in the order of the page.
_BY_KIND = {
    Kind.REACH: (
        (-195, "_TRANSPORT", "the connection to a broker was refused or broke", _ADDRESS),
        (-193, "_RESOLVE", "the name of a broker does not resolve to an address", _ADDRESS),
        (-187, "_ALL_BROKERS_DOWN", "no connection to a broker was possible", _ADDRESS),
        (-185, "_TIMED_OUT", "no answer came in time", _ADDRESS),
        (-166, "_TIMED_OUT_QUEUE", "no connection was available in time for the request", _ADDRESS),
        (-137, "_DESTROY_BROKER", "the broker left the cluster before it answered", _ADDRESS),
        (7, "REQUEST_TIMED_OUT", "the broker could not complete the request in time", _ADDRESS),
        (-181, "_SSL", "no encrypted connection was negotiated, or a certificate refused", _TLS),
        (13, "NETWORK_EXCEPTION", "the broker closed the connection before it answered", _ADDRESS),
    ),
    Kind.LOGIN: (
        (-169, "_AUTHENTICATION", "the broker refused the login, or aborted it", _USER),
        (58, "SASL_AUTHENTICATION_FAILED", "the broker refused user or password", _USER),
        (33, "UNSUPPORTED_SASL_MECHANISM", "the broker does not have this mechanism", _MECHANISM),
        (34, "ILLEGAL_SASL_STATE", "the login came when none was expected",
         "check that security.protocol is that of the listener"),
    ),
    Kind.RIGHTS: (
        (29, "TOPIC_AUTHORIZATION_FAILED", "the topic may not be read or described",
         _grant("READ and DESCRIBE on it", "--operation Read --operation Describe --topic {name}")),
        (30, "GROUP_AUTHORIZATION_FAILED", "the group may not be described or used",
         _grant("DESCRIBE on it, or READ to consume", "--operation Describe --group {name}")),
        (31, "CLUSTER_AUTHORIZATION_FAILED", "the operation on the whole cluster is not allowed",
         _grant("DESCRIBE on the cluster", "--operation Describe --cluster")),
    ),
    Kind.MISSING: (
        (3, "UNKNOWN_TOPIC_OR_PARTITION", "the broker has no such topic or partition", _TOPIC),
        (-188, "_UNKNOWN_TOPIC", "the cluster has no such topic", _TOPIC),
        (-190, "_UNKNOWN_PARTITION", "the topic has no such partition", _TOPIC),
        (100, "UNKNOWN_TOPIC_ID", "the broker has no topic with this id: it was deleted, or is new",
         "try again; if the error persists, the topic was deleted and created again"),
        (103, "INCONSISTENT_TOPIC_ID", "the topic was deleted and created again under its name",
         "restart the client that still has the old id"),
        (17, "INVALID_TOPIC_EXCEPTION", "the name is not allowed for a topic",
         "use letters, digits, dots, underscores and dashes, at most 249 of them"),
    ),
    Kind.LEADERS: (
        (5, "LEADER_NOT_AVAILABLE", "the partition has no leader now", _LEADERS),
        (6, "NOT_LEADER_OR_FOLLOWER", "the broker no longer leads the partition", _LEADERS),
        (9, "REPLICA_NOT_AVAILABLE", "the broker does not have the replica yet", _LEADERS),
        (74, "FENCED_LEADER_EPOCH", "the leader epoch is outdated",
         "nothing: the new leader continues, and clients look it up"),
        (75, "UNKNOWN_LEADER_EPOCH", "the broker does not know this leader epoch yet", _AGAIN),
        (78, "OFFSET_NOT_AVAILABLE", "a new leader does not know the end of its log yet", _AGAIN),
    ),
    Kind.COORDINATORS: (
        (14, "COORDINATOR_LOAD_IN_PROGRESS", "the coordinator is still reading its partition",
         "try again; a large __share_group_state or __consumer_offsets takes longer"),
        (15, "COORDINATOR_NOT_AVAILABLE", "no broker is the coordinator now",
         "check that __consumer_offsets and __share_group_state have leaders, and try again"),
        (16, "NOT_COORDINATOR", "the broker is no longer the coordinator", _CLIENT_DOES),
        (124, "FENCED_STATE_EPOCH", "the state epoch is outdated",
         "nothing: the share partition was initialized again, and its leader reads the new state"),
    ),
    Kind.GROUPS: (
        (24, "INVALID_GROUP_ID", "the name is not allowed for a group",
         "give one that is not empty"),
        (69, "GROUP_ID_NOT_FOUND", "there is no such group, or it is of another type",
         "check the spelling, and its type with kafka-groups.sh --list"),
        (68, "NON_EMPTY_GROUP", "the group has members",
         "stop its consumers first: offsets can be changed only while it is empty"),
        (86, "GROUP_SUBSCRIBED_TO_TOPIC", "a member of the group is subscribed to the topic",
         "stop its consumers first"),
        (81, "GROUP_MAX_SIZE_REACHED", "the group has its maximum number of members",
         "raise the broker's group.share.max.size, or run fewer members"),
        (25, "UNKNOWN_MEMBER_ID", "the coordinator removed the member, or never had it", _REJOINS),
        (110, "FENCED_MEMBER_EPOCH",
         "the member has an epoch that the coordinator does not expect", _REJOINS),
        (113, "STALE_MEMBER_EPOCH", "the member does not know its new epoch yet", _CLIENT_DOES),
    ),
    Kind.SHARES: (
        (121, "INVALID_RECORD_STATE", "the member no longer holds the record",
         ("acknowledge before the lock expires: process fewer records per poll, or raise "
          "share.record.lock.duration.ms")),
        (122, "SHARE_SESSION_NOT_FOUND", "the broker has no session of the member",
         "nothing, if it is rare: the client opens a new one, and what it held is delivered again"),
        (123, "INVALID_SHARE_SESSION_EPOCH", "requests of the session came out of order",
         "nothing, if it is rare: the client opens a new session"),
        (133, "SHARE_SESSION_LIMIT_REACHED", "the broker has its maximum number of sessions",
         "raise the broker's group.share.max.share.sessions, or run fewer members"),
    ),
    Kind.REQUESTS: (
        (-1, "UNKNOWN_SERVER_ERROR", "the broker had an unexpected error",
         "look for the cause in the broker's log"),
        (1, "OFFSET_OUT_OF_RANGE",
         "the log does not have the offset: it was deleted, or not written",
         "read from the log start on, or restore a capture"),
        (-140, "_AUTO_OFFSET_RESET", "the log no longer has the offset", "read again"),
        (2, "CORRUPT_MESSAGE", "a record batch on disk is damaged",
         "let another replica lead the partition, and check the disk of this one"),
        (-198, "_BAD_COMPRESSION", "a record batch could not be decompressed", _CODEC),
        (76, "UNSUPPORTED_COMPRESSION_TYPE", "the client lacks the topic's compression", _CODEC),
        (-199, "_BAD_MSG", "an answer could not be read", "check that the address is a broker's"),
        (56, "KAFKA_STORAGE_ERROR", "the broker cannot read or write its disk",
         "check the disk and the log of the broker; another replica may lead meanwhile"),
        (54, "SECURITY_DISABLED", "the cluster has no authorizer, so it has no rules to list",
         "nothing: everyone may do everything"),
        (35, "UNSUPPORTED_VERSION", "the broker does not have this version of the request",
         _UPGRADE),
        (-165, "_UNSUPPORTED_FEATURE", "the broker does not have what the request needs", _UPGRADE),
        (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", "the records are in a format without timestamps",
         "look up by offset instead of time"),
        (42, "INVALID_REQUEST", "the broker cannot use the request as it is", _UPGRADE),
        (89, "THROTTLING_QUOTA_EXCEEDED", "the client exceeded its quota",
         "wait, or raise the quota with kafka-configs.sh"),
        (129, "REBOOTSTRAP_REQUIRED", "all brokers that the client knew were replaced",
         "restart it with addresses of current brokers"),
    ),
}  # fmt: skip
ERRORS = {
    code: KafkaError(code, name, kind, meaning, advice)
    for kind, errors in _BY_KIND.items()
    for code, name, meaning, advice in errors
}


def of_kind(*kinds: Kind) -> frozenset[int]:
    """Return the error codes of some kinds."""
    return frozenset(code for code, error in ERRORS.items() if error.kind in kinds)


def in_words(code: int) -> str:
    """Return the name and meaning of an error that a broker sent."""
    known = ERRORS.get(code)
    return f"error {code}" if known is None else f"{known.name}: {known.meaning}"


# ---- errors of each request ----------------------------------------------------------------------


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Errors of any coordinator.
_BY_COORDINATORS = _names(
    "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS INVALID_REQUEST"
)
_BY_LEADERS = _BY_COORDINATORS | _names(
    "GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION "
    "NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_ID INVALID_RECORD_STATE KAFKA_STORAGE_ERROR "
    "SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED "
    "UNKNOWN_SERVER_ERROR "
    # If the leader could not read or write the state.
    "FENCED_LEADER_EPOCH FENCED_STATE_EPOCH LEADER_NOT_AVAILABLE GROUP_ID_NOT_FOUND"
)
_GROUP_ERRORS = _BY_COORDINATORS | _names("GROUP_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND")
_OFFSET_ERRORS = _GROUP_ERRORS | _names("TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR")
_CHANGE_ERRORS = _OFFSET_ERRORS | _names(
    "NON_EMPTY_GROUP KAFKA_STORAGE_ERROR UNKNOWN_TOPIC_OR_PARTITION GROUP_SUBSCRIBED_TO_TOPIC"
)
_STATE_ERRORS = _BY_COORDINATORS | _names(
    "GROUP_ID_NOT_FOUND UNKNOWN_TOPIC_OR_PARTITION FENCED_STATE_EPOCH FENCED_LEADER_EPOCH "
    "CLUSTER_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR"
)
#: Errors listed for each request (KIP-932, KIP-1226, comments in Kafka's message schemas), and
#: further ones in Kafka's code: limits of sessions, topics that may not be described, and errors of
#: the persister.
ANSWERS: dict[str, frozenset[str]] = {
    "ShareGroupHeartbeat": _BY_COORDINATORS
    | _names(
        "GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED UNKNOWN_MEMBER_ID "
        "GROUP_MAX_SIZE_REACHED FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND INVALID_GROUP_ID "
        "UNSUPPORTED_VERSION"
    ),
    "ShareGroupDescribe": _GROUP_ERRORS | {"INVALID_GROUP_ID", "TOPIC_AUTHORIZATION_FAILED"},
    "ShareFetch": _BY_LEADERS | {"CORRUPT_MESSAGE"},
    "ShareAcknowledge": _BY_LEADERS,
    "DescribeShareGroupOffsets": _OFFSET_ERRORS | {"UNKNOWN_TOPIC_OR_PARTITION"},
    "AlterShareGroupOffsets": _CHANGE_ERRORS,
    "DeleteShareGroupOffsets": _CHANGE_ERRORS,
    "DeleteGroups": _GROUP_ERRORS | {"NON_EMPTY_GROUP", "INVALID_GROUP_ID"},
    "ListGroups": _BY_COORDINATORS | {"UNKNOWN_SERVER_ERROR"},
    "InitializeShareGroupState": _STATE_ERRORS,
    "ReadShareGroupState": _STATE_ERRORS,
    "WriteShareGroupState": _STATE_ERRORS,
    "DeleteShareGroupState": _STATE_ERRORS,
    "ReadShareGroupStateSummary": _STATE_ERRORS,
}
