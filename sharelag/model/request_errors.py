"""Which errors Kafka gives to which request about share groups."""

from __future__ import annotations

#: What any coordinator may answer.
_BY_COORDINATORS = {
    *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    "INVALID_REQUEST",
}
_BY_LEADERS = {
    *("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION"),
    *("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID", "INVALID_RECORD_STATE", "KAFKA_STORAGE_ERROR"),
    *("INVALID_REQUEST", "UNKNOWN_SERVER_ERROR"),
    *("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH", "SHARE_SESSION_LIMIT_REACHED"),
    # Where the leader could not read or write the state.
    *("FENCED_LEADER_EPOCH", "FENCED_STATE_EPOCH", "LEADER_NOT_AVAILABLE", "GROUP_ID_NOT_FOUND"),
    *("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
}
_OF_GROUPS = _BY_COORDINATORS | {"GROUP_AUTHORIZATION_FAILED", "GROUP_ID_NOT_FOUND"}
_OF_OFFSETS = _OF_GROUPS | {"TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"}
_OF_CHANGES = _OF_OFFSETS | {
    *("NON_EMPTY_GROUP", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PARTITION"),
    "GROUP_SUBSCRIBED_TO_TOPIC",
}
_OF_STATE = _BY_COORDINATORS | {
    *("GROUP_ID_NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION", "FENCED_STATE_EPOCH"),
    *("FENCED_LEADER_EPOCH", "CLUSTER_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"),
}
#: Errors that Kafka lists for each request (KIP-932, KIP-1226, and the comments of its message
#: schemas), and those that its code gives beside them: limits of sessions, topics that may not be
#: described, and what the persister met.
ANSWERS: dict[str, frozenset[str]] = {
    api: frozenset(names)
    for api, names in {
        "ShareGroupHeartbeat": _BY_COORDINATORS
        | {
            *("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_MEMBER_ID"),
            *("GROUP_MAX_SIZE_REACHED", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"),
            *("INVALID_GROUP_ID", "UNSUPPORTED_VERSION"),
        },
        "ShareGroupDescribe": _OF_GROUPS | {"INVALID_GROUP_ID", "TOPIC_AUTHORIZATION_FAILED"},
        "ShareFetch": _BY_LEADERS | {"CORRUPT_MESSAGE"},
        "ShareAcknowledge": _BY_LEADERS,
        "DescribeShareGroupOffsets": _OF_OFFSETS | {"UNKNOWN_TOPIC_OR_PARTITION"},
        "AlterShareGroupOffsets": _OF_CHANGES,
        "DeleteShareGroupOffsets": _OF_CHANGES,
        "DeleteGroups": _OF_GROUPS | {"NON_EMPTY_GROUP", "INVALID_GROUP_ID"},
        "ListGroups": _BY_COORDINATORS | {"UNKNOWN_SERVER_ERROR"},
        "InitializeShareGroupState": _OF_STATE,
        "ReadShareGroupState": _OF_STATE,
        "WriteShareGroupState": _OF_STATE,
        "DeleteShareGroupState": _OF_STATE,
        "ReadShareGroupStateSummary": _OF_STATE,
    }.items()
}
