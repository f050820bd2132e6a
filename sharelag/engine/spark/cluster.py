"""A cluster as DataFrames: raw records and partition offsets, the two halves of a lag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.engine.spark.tasks import Logs, set_origin
from sharelag.errors import InputError
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig, client_config
from sharelag.inputs.kafka.topics import past_offsets
from sharelag.inputs.spark import is_connect
from sharelag.inputs.spark.data_source import register_cluster, require_admission_control
from sharelag.inputs.spark.frames import frame_of, reads_internal_topics
from sharelag.replay.moment import as_time
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC


def read_kafka(
    spark: SparkSession,
    bootstrap_server: str | ClientConfig | None = None,
    *,
    topics: str | Sequence[str] = (STATE_TOPIC, GROUP_TOPIC),
    stream: bool = False,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> DataFrame:
    """Read the raw records of share groups: ``__share_group_state`` and ``__consumer_offsets``.

    Spark's own Kafka source reads them if the session has it and sets
    ``spark.sql.streaming.kafka.useDeprecatedOffsetFetching`` to true; otherwise it omits internal
    topics. In all other cases, and on Spark Connect if client settings may contain secrets, the
    source of `sharelag` reads them, which needs no jar. Neither joins a group.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Its configuration is not changed.
    bootstrap_server : str or ClientConfig, optional
        ``"host:port[,...]"``; the file or ``KAFKA_BOOTSTRAP_SERVERS`` may have it instead.
    topics : str or sequence of str
        Without ``__consumer_offsets``, which may be large, members and groups are unknown.
    stream : bool
        Read as a stream from the earliest records on, instead of as a batch.
    command_config : path, optional
        A file of client properties, as for Kafka's own commands.
    properties : mapping, optional
        Single client properties, which override the file.
    timeout : float
        Seconds to wait for brokers.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.RAW`. A batch ends at the ends of the topics at the time of this call,
        however often it is read. Call `offsets` afterwards, so that no lag seems negative. Records
        pruned in the meantime are left out.

    Raises
    ------
    ClusterError
        One of its subclasses: the topic does not exist or may not be read, or no broker answers.
    SetupError
        A stream without Spark's own Kafka source needs pyspark 4.2 or newer.

    Notes
    -----
    Tasks of `windows`, `lag` and other functions fetch the records of a batch themselves, with
    either source, unless its rows were filtered or it is in Spark's cache.
    """
    config = config_of(bootstrap_server, command_config, properties, timeout)
    ranges: dict[str, dict[int, tuple[int, int]]] = {}
    for topic in [topics] if isinstance(topics, str) else topics:
        found = kafka.offset_ranges(config, topic)
        some = {p: (first, end) for p, (first, end) in found.items() if stream or end > first}
        ranges |= {topic: some} if some else {}
    if not ranges:
        return frame_of(spark, schemas.RAW.empty_table())
    options = {
        # Unlike a subscription, an assignment does not join a consumer group.
        "assign": json.dumps({topic: sorted(partitions) for topic, partitions in ranges.items()}),
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
    if not stream:
        ends = {topic: {p: end for p, (_, end) in of.items()} for topic, of in ranges.items()}
        options["endingOffsets"] = json.dumps(ends)
    reader = spark.readStream if stream else spark.read
    # A Spark Connect server logs options, so they must not contain secrets.
    may_be_options = config.is_public or not is_connect(spark)
    if config.java and may_be_options and reads_internal_topics(spark):
        frame = reader.format("kafka").options(**options, **config.connector_options()).load()
    else:
        if stream:
            require_admission_control()
        frame = reader.format(register_cluster(spark, config)).options(**options).load()
    if not stream:
        set_origin(frame, Logs(spark, config, ranges))
    return frame


def offsets(
    spark: SparkSession,
    bootstrap_server: str | ClientConfig | None = None,
    *,
    topics: str | Sequence[str] = (),
    as_of: str | datetime | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> DataFrame:
    """Return log start and end offsets of a cluster's topic partitions.

    Parameters
    ----------
    spark, bootstrap_server, command_config, properties, timeout
        As for `read_kafka`.
    topics : str or sequence of str
        Restrict the answer to these. Default: all that we are authorized to describe.
    as_of : str or datetime, optional
        A moment with its time zone; see `sharelag.inputs.kafka.topics.past_offsets`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.OFFSETS`, one row per topic partition. The driver fetches them at once:
        read the corresponding windows before, or a lag could seem negative.

    Raises
    ------
    InputError
        The topic does not exist, ``as_of`` has no zone, or it is offsets of the state topic.
    ClusterError
        One of its subclasses.
    ClusterError
        One of its children.
    """
    as_of = as_time(as_of)
    config = config_of(bootstrap_server, command_config, properties, timeout)
    found = kafka.topic_ids(config)
    names = [topics] if isinstance(topics, str) else list(topics)
    if missing := sorted(set(names) - found.keys()):
        raise InputError(
            f"there is no topic {missing[0]!r}, or it is not authorized: "
            "check its spelling and the ACLs"
        )
    chosen = {name: found[name] for name in names or found}
    if as_of is None:
        ends = kafka.list_offsets(config, chosen)
    else:
        ends = past_offsets(config, chosen, [as_of])
    frame = frame_of(spark, ends)
    set_origin(frame, ends)
    return frame


def config_of(
    bootstrap_server: str | ClientConfig | None,
    command_config: str | Path | None,
    properties: Mapping[str, str] | None,
    timeout: float,
) -> ClientConfig:
    """Return the client configuration of a cluster, as given or from options."""
    if isinstance(bootstrap_server, ClientConfig):
        return bootstrap_server
    return client_config(bootstrap_server, command_config, properties, timeout)
