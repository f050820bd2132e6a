"""Partition offsets of a cluster as a DataFrame: the other half of a lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sharelag.errors import InputError
from sharelag.pipeline.collecting import frame_of
from sharelag.replay.moment import with_zone
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.config import ClientConfig, client_config


def offsets(
    spark: SparkSession,
    bootstrap_server: str | ClientConfig | None = None,
    *,
    topics: str | Sequence[str] = (),
    as_of: datetime | None = None,
    command_config: str | Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> DataFrame:
    """Return log start and end offsets of a cluster's topic partitions.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    bootstrap_server : str or ClientConfig, optional
        ``"host:port[,...]"``; may stand in the file or in ``KAFKA_BOOTSTRAP_SERVERS`` instead.
    topics : str or sequence of str
        Only these; by default all that we are authorized to describe.
    as_of : datetime, optional
        As of when, with its zone; see `sharelag.sources.kafka.topics.list_offsets`.
    command_config : path, optional
        Client properties, as Kafka's own commands take them.
    properties : mapping, optional
        Single client properties; they win over the file.
    timeout : float
        Seconds to wait for brokers.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.OFFSETS`, a row a topic partition. Asked at once, from the driver: read
        the windows that they go with before, or a lag could seem negative.

    Raises
    ------
    InputError
        A topic is not there, or ``as_of`` has no zone.
    ClusterError
        One of its children.
    """
    with_zone(as_of)
    config = bootstrap_server
    if not isinstance(config, ClientConfig):
        file = Path(command_config) if command_config else None
        config = client_config(config, file, dict(properties or {}), timeout)
    found = kafka.topic_ids(config)
    wanted = [topics] if isinstance(topics, str) else list(topics)
    if missing := sorted(set(wanted) - found.keys()):
        raise InputError(
            f"there is no topic {missing[0]!r}, or it is not authorized: "
            "check its spelling and the ACLs"
        )
    chosen = {name: found[name] for name in wanted or found}
    return frame_of(spark, kafka.list_offsets(config, chosen, as_of))
