"""What clients ask of brokers about share groups, as Kafka 4.3's message schemas have it."""

from __future__ import annotations

from sharelag.wire.requests.part import Api, Part

OF_CLIENTS = (
    Api(
        "ShareGroupHeartbeat",
        76,
        "1",
        (
            Part("GroupId", "string"),
            Part("MemberId", "string"),
            Part("MemberEpoch", "int32"),
            Part("RackId", "string", nullable=True),
            Part("SubscribedTopicNames", "[]string", nullable=True),
        ),
        (
            Part("ThrottleTimeMs", "int32"),
            Part("ErrorCode", "int16"),
            Part("ErrorMessage", "string", nullable=True),
            Part("MemberId", "string", nullable=True),
            Part("MemberEpoch", "int32"),
            Part("HeartbeatIntervalMs", "int32"),
            Part(
                "Assignment",
                "struct",
                (
                    Part(
                        "TopicPartitions",
                        "[]struct",
                        (
                            Part("TopicId", "uuid"),
                            Part("Partitions", "[]int32"),
                        ),
                    ),
                ),
                nullable=True,
            ),
        ),
    ),
    Api(
        "ShareGroupDescribe",
        77,
        "1",
        (
            Part("GroupIds", "[]string"),
            Part("IncludeAuthorizedOperations", "bool"),
        ),
        (
            Part("ThrottleTimeMs", "int32"),
            Part(
                "Groups",
                "[]struct",
                (
                    Part("ErrorCode", "int16"),
                    Part("ErrorMessage", "string", nullable=True),
                    Part("GroupId", "string"),
                    Part("GroupState", "string"),
                    Part("GroupEpoch", "int32"),
                    Part("AssignmentEpoch", "int32"),
                    Part("AssignorName", "string"),
                    Part(
                        "Members",
                        "[]struct",
                        (
                            Part("MemberId", "string"),
                            Part("RackId", "string", nullable=True),
                            Part("MemberEpoch", "int32"),
                            Part("ClientId", "string"),
                            Part("ClientHost", "string"),
                            Part("SubscribedTopicNames", "[]string"),
                            Part(
                                "Assignment",
                                "struct",
                                (
                                    Part(
                                        "TopicPartitions",
                                        "[]struct",
                                        (
                                            Part("TopicId", "uuid"),
                                            Part("TopicName", "string"),
                                            Part("Partitions", "[]int32"),
                                        ),
                                    ),
                                ),
                            ),
                        ),
                    ),
                    Part("AuthorizedOperations", "int32", default=-2147483648),
                ),
            ),
        ),
    ),
    Api(
        "ShareFetch",
        78,
        "1-2",
        (
            Part("GroupId", "string", nullable=True),
            Part("MemberId", "string", nullable=True),
            Part("ShareSessionEpoch", "int32"),
            Part("MaxWaitMs", "int32"),
            Part("MinBytes", "int32"),
            Part("MaxBytes", "int32", default="0x7fffffff"),
            Part("MaxRecords", "int32", versions="1+"),
            Part("BatchSize", "int32", versions="1+"),
            Part("ShareAcquireMode", "int8", versions="2+"),
            Part("IsRenewAck", "bool", versions="2+"),
            Part(
                "Topics",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("PartitionIndex", "int32"),
                            Part("PartitionMaxBytes", "int32", versions="0"),
                            Part(
                                "AcknowledgementBatches",
                                "[]struct",
                                (
                                    Part("FirstOffset", "int64"),
                                    Part("LastOffset", "int64"),
                                    Part("AcknowledgeTypes", "[]int8"),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
            Part(
                "ForgottenTopicsData",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part("Partitions", "[]int32"),
                ),
            ),
        ),
        (
            Part("ThrottleTimeMs", "int32"),
            Part("ErrorCode", "int16"),
            Part("ErrorMessage", "string", nullable=True),
            Part("AcquisitionLockTimeoutMs", "int32", versions="1+"),
            Part(
                "Responses",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("PartitionIndex", "int32"),
                            Part("ErrorCode", "int16"),
                            Part("ErrorMessage", "string", nullable=True),
                            Part("AcknowledgeErrorCode", "int16"),
                            Part("AcknowledgeErrorMessage", "string", nullable=True),
                            Part(
                                "CurrentLeader",
                                "struct",
                                (
                                    Part("LeaderId", "int32"),
                                    Part("LeaderEpoch", "int32"),
                                ),
                            ),
                            Part("Records", "records", nullable=True),
                            Part(
                                "AcquiredRecords",
                                "[]struct",
                                (
                                    Part("FirstOffset", "int64"),
                                    Part("LastOffset", "int64"),
                                    Part("DeliveryCount", "int16"),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
            Part(
                "NodeEndpoints",
                "[]struct",
                (
                    Part("NodeId", "int32"),
                    Part("Host", "string"),
                    Part("Port", "int32"),
                    Part("Rack", "string", nullable=True),
                ),
            ),
        ),
    ),
    Api(
        "ShareAcknowledge",
        79,
        "1-2",
        (
            Part("GroupId", "string", nullable=True),
            Part("MemberId", "string", nullable=True),
            Part("ShareSessionEpoch", "int32"),
            Part("IsRenewAck", "bool", versions="2+"),
            Part(
                "Topics",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("PartitionIndex", "int32"),
                            Part(
                                "AcknowledgementBatches",
                                "[]struct",
                                (
                                    Part("FirstOffset", "int64"),
                                    Part("LastOffset", "int64"),
                                    Part("AcknowledgeTypes", "[]int8"),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
        ),
        (
            Part("ThrottleTimeMs", "int32"),
            Part("ErrorCode", "int16"),
            Part("ErrorMessage", "string", nullable=True),
            Part("AcquisitionLockTimeoutMs", "int32", versions="2+"),
            Part(
                "Responses",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("PartitionIndex", "int32"),
                            Part("ErrorCode", "int16"),
                            Part("ErrorMessage", "string", nullable=True),
                            Part(
                                "CurrentLeader",
                                "struct",
                                (
                                    Part("LeaderId", "int32"),
                                    Part("LeaderEpoch", "int32"),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
            Part(
                "NodeEndpoints",
                "[]struct",
                (
                    Part("NodeId", "int32"),
                    Part("Host", "string"),
                    Part("Port", "int32"),
                    Part("Rack", "string", nullable=True),
                ),
            ),
        ),
    ),
    Api(
        "DescribeShareGroupOffsets",
        90,
        "0-1",
        (
            Part(
                "Groups",
                "[]struct",
                (
                    Part("GroupId", "string"),
                    Part(
                        "Topics",
                        "[]struct",
                        (
                            Part("TopicName", "string"),
                            Part("Partitions", "[]int32"),
                        ),
                        nullable=True,
                    ),
                ),
            ),
        ),
        (
            Part("ThrottleTimeMs", "int32"),
            Part(
                "Groups",
                "[]struct",
                (
                    Part("GroupId", "string"),
                    Part(
                        "Topics",
                        "[]struct",
                        (
                            Part("TopicName", "string"),
                            Part("TopicId", "uuid"),
                            Part(
                                "Partitions",
                                "[]struct",
                                (
                                    Part("PartitionIndex", "int32"),
                                    Part("StartOffset", "int64"),
                                    Part("LeaderEpoch", "int32"),
                                    Part("Lag", "int64", versions="1+", default=-1),
                                    Part("ErrorCode", "int16"),
                                    Part("ErrorMessage", "string", nullable=True),
                                ),
                            ),
                        ),
                    ),
                    Part("ErrorCode", "int16"),
                    Part("ErrorMessage", "string", nullable=True),
                ),
            ),
        ),
    ),
    Api(
        "AlterShareGroupOffsets",
        91,
        "0",
        (
            Part("GroupId", "string"),
            Part(
                "Topics",
                "[]struct",
                (
                    Part("TopicName", "string"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("PartitionIndex", "int32"),
                            Part("StartOffset", "int64"),
                        ),
                    ),
                ),
            ),
        ),
        (
            Part("ThrottleTimeMs", "int32"),
            Part("ErrorCode", "int16"),
            Part("ErrorMessage", "string", nullable=True),
            Part(
                "Responses",
                "[]struct",
                (
                    Part("TopicName", "string"),
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("PartitionIndex", "int32"),
                            Part("ErrorCode", "int16"),
                            Part("ErrorMessage", "string", nullable=True),
                        ),
                    ),
                ),
            ),
        ),
    ),
    Api(
        "DeleteShareGroupOffsets",
        92,
        "0",
        (
            Part("GroupId", "string"),
            Part("Topics", "[]struct", (Part("TopicName", "string"),)),
        ),
        (
            Part("ThrottleTimeMs", "int32"),
            Part("ErrorCode", "int16"),
            Part("ErrorMessage", "string", nullable=True),
            Part(
                "Responses",
                "[]struct",
                (
                    Part("TopicName", "string"),
                    Part("TopicId", "uuid"),
                    Part("ErrorCode", "int16"),
                    Part("ErrorMessage", "string", nullable=True),
                ),
            ),
        ),
    ),
)
