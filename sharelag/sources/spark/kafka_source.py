"""Spark's own Kafka source: whether a session has it, and what its tasks read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sharelag.sources.spark.data_source_options import FORMAT
from sharelag.sources.spark.sessions import is_connect
from sharelag.tables.reasons import KAFKA_SETTING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger(__name__)
#: What Spark's plans call a choice of columns and rows.
_CHOOSING = {"Project", "Filter", "SubqueryAlias"}
#: Options by which several tasks read a partition.
_SPLITTING = ("minPartitions", "maxRecordsPerPartition")


def reads_internal_topics(spark: SparkSession) -> bool:
    """Whether a session has Spark's own Kafka source, with the setting for internal topics."""
    return _is_set(spark) and _has_connector(spark)


def leaves_out_internal_topics(frame: DataFrame) -> bool:
    """Whether a DataFrame reads Spark's own Kafka source, in a session without the setting."""
    return not _is_set(frame.sparkSession) and _reads_kafka(frame)


def _is_set(spark: SparkSession) -> bool:
    return (spark.conf.get(KAFKA_SETTING, "false") or "").lower() == "true"


def _has_connector(spark: SparkSession) -> bool:
    from pyspark.errors import AnalysisException

    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "none"}
    try:  # brokers are contacted when rows are read, not here
        spark.read.format("kafka").options(**options).load().schema  # noqa: B018
    except AnalysisException:
        return False
    return True


def holds_whole_partitions(frame: DataFrame) -> bool:
    """Whether each task that scans a DataFrame reads whole partitions of Kafka's topics.

    So it is with Spark's own Kafka source and with ours, unless an option splits partitions, and
    with columns and rows chosen from them; everything else may have been dealt out anew.
    """
    scan = _connect_scan(frame) if is_connect(frame.sparkSession) else _classic_scan(frame)
    return scan is not None and not any(scan(option) for option in _SPLITTING)


def _connect_scan(frame: Any) -> Callable[[str], bool] | None:
    """Return what says whether an option is set, where a DataFrame does nothing but scan Kafka."""
    plan = frame._plan
    while type(plan).__name__ in _CHOOSING:
        plan = plan._child
    if type(plan).__name__ != "DataSource" or not _is_of_kafka(plan._format or ""):
        return None
    options = {name.lower() for name in plan._options}
    return lambda option: option.lower() in options


def _classic_scan(frame: Any) -> Any:
    from py4j.protocol import Py4JError

    plan = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() in _CHOOSING:
        plan = plan.children().head()
    try:
        if plan.nodeName() == "DataSourceV2Relation" and _is_of_kafka(plan.table().name()):
            return plan.options().containsKey
        if plan.nodeName() == "LogicalRelation" and "KafkaRelation(" in plan.toString():
            relation = plan.relation()  # it shows its options to nobody
            options = relation.getClass().getDeclaredField("sourceOptions")
            options.setAccessible(True)
            return options.get(relation).contains
    except Py4JError:
        _LOG.debug("this Spark's Kafka source has no options to look at", exc_info=True)
    return None


def _is_of_kafka(name: str) -> bool:
    return name == "kafka" or name.startswith(FORMAT)


def _reads_kafka(frame: Any) -> bool:
    if is_connect(frame.sparkSession):
        return "format='kafka'" in frame._plan.print()
    plan = frame._jdf.queryExecution().analyzed().toString()
    return "KafkaRelation(" in plan or "KafkaSourceProvider" in plan
