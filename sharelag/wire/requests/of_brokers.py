"""What brokers ask of share coordinators, as Kafka 4.3's message schemas have it."""

from __future__ import annotations

from sharelag.wire.requests.part import Api, Part

OF_BROKERS = (
    Api(
        "InitializeShareGroupState",
        83,
        "0",
        (
            Part("GroupId", "string"),
            Part(
                "Topics",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("StateEpoch", "int32"),
                            Part("StartOffset", "int64"),
                        ),
                    ),
                ),
            ),
        ),
        (
            Part(
                "Results",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("ErrorCode", "int16"),
                            Part("ErrorMessage", "string", nullable=True),
                        ),
                    ),
                ),
            ),
        ),
    ),
    Api(
        "ReadShareGroupState",
        84,
        "0",
        (
            Part("GroupId", "string"),
            Part(
                "Topics",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("LeaderEpoch", "int32"),
                        ),
                    ),
                ),
            ),
        ),
        (
            Part(
                "Results",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("ErrorCode", "int16"),
                            Part("ErrorMessage", "string", nullable=True),
                            Part("StateEpoch", "int32"),
                            Part("StartOffset", "int64"),
                            Part(
                                "StateBatches",
                                "[]struct",
                                (
                                    Part("FirstOffset", "int64"),
                                    Part("LastOffset", "int64"),
                                    Part("DeliveryState", "int8"),
                                    Part("DeliveryCount", "int16"),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
    Api(
        "WriteShareGroupState",
        85,
        "0-1",
        (
            Part("GroupId", "string"),
            Part(
                "Topics",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("StateEpoch", "int32"),
                            Part("LeaderEpoch", "int32"),
                            Part("StartOffset", "int64"),
                            Part("DeliveryCompleteCount", "int32", versions="1+", default=-1),
                            Part(
                                "StateBatches",
                                "[]struct",
                                (
                                    Part("FirstOffset", "int64"),
                                    Part("LastOffset", "int64"),
                                    Part("DeliveryState", "int8"),
                                    Part("DeliveryCount", "int16"),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
        ),
        (
            Part(
                "Results",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("ErrorCode", "int16"),
                            Part("ErrorMessage", "string", nullable=True),
                        ),
                    ),
                ),
            ),
        ),
    ),
    Api(
        "DeleteShareGroupState",
        86,
        "0",
        (
            Part("GroupId", "string"),
            Part(
                "Topics",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part("Partitions", "[]struct", (Part("Partition", "int32"),)),
                ),
            ),
        ),
        (
            Part(
                "Results",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("ErrorCode", "int16"),
                            Part("ErrorMessage", "string", nullable=True),
                        ),
                    ),
                ),
            ),
        ),
    ),
    Api(
        "ReadShareGroupStateSummary",
        87,
        "0-1",
        (
            Part("GroupId", "string"),
            Part(
                "Topics",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("LeaderEpoch", "int32"),
                        ),
                    ),
                ),
            ),
        ),
        (
            Part(
                "Results",
                "[]struct",
                (
                    Part("TopicId", "uuid"),
                    Part(
                        "Partitions",
                        "[]struct",
                        (
                            Part("Partition", "int32"),
                            Part("ErrorCode", "int16"),
                            Part("ErrorMessage", "string", nullable=True),
                            Part("StateEpoch", "int32"),
                            Part("LeaderEpoch", "int32"),
                            Part("StartOffset", "int64"),
                            Part("DeliveryCompleteCount", "int32", versions="1+", default=-1),
                        ),
                    ),
                ),
            ),
        ),
    ),
)
