"""Record a broker's metrics of share groups, with Kafka's JmxTool and with the JMX exporter.

``python -m tools.record.broker_metrics`` writes ``tests/data/metrics``: two readings, and the
second one also by the exporter with its default rules, in lower case, and with the rules of its
example for Kafka.
"""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import AcknowledgeType, Message

from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import build_once, cache_dir, retrieve
from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)
from tests.support.ports import free_port

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "metrics"
#: MBeans of share groups.
BEANS = tuple(
    f"kafka.server:type={name},*"
    for name in (
        *("ShareGroupMetrics", "SharePartitionMetrics", "ShareSessionCache"),
        *("group-coordinator-metrics", "share-coordinator-metrics"),
    )
)
_EXPORTER = "1.0.1"
_IVY = f"""\
<ivy-module version="2.0">
  <info organisation="tests" module="exporter"/>
  <configurations><conf name="default"/></configurations>
  <dependencies><dependency org="io.prometheus.jmx" name="jmx_prometheus_javaagent"
    rev="{_EXPORTER}" conf="default->default"/></dependencies>
</ivy-module>
"""
_ONLY = "includeObjectNames: [" + ", ".join(f'"{bean}"' for bean in BEANS) + "]\n"
_BEAN = r"kafka.(\w+)<type=(.+), name=(.+)"
_NAME = "kafka_$1_$2_$3"


def _generic(suffix: str, attribute: str, ending: str, kind: str) -> str:
    """Return rules for one kind of attribute, with two pairs of keys and values, one, and none."""
    rules = ""
    for pairs in (2, 1, 0):
        labels = "".join(f'    "${4 + 2 * at}": "${5 + 2 * at}"\n' for at in range(pairs))
        rules += (
            f"- pattern: {_BEAN}{suffix}{', (.+)=(.+)' * pairs}><>{attribute}\n"
            f"  name: {_NAME}{ending}\n  type: {kind}\n" + ("  labels:\n" + labels) * bool(pairs)
        )
    return rules


#: Rules of the exporter; ``example`` are the generic ones of its own ``kafka-2_0_0.yml``.
RULES = {
    "default": "",
    "lower": "lowercaseOutputName: true\nlowercaseOutputLabelNames: true\n",
    "example": "lowercaseOutputName: true\nrules:\n"
    + _generic(r"PerSec\w*", "Count", "_total", "COUNTER")
    + _generic("", "Value", "", "GAUGE")
    + _generic("", "Count", "_count", "COUNTER"),
}
#: Text attributes and percentiles, which are left out to keep samples small.
_SMALL = re.compile(
    r"# HELP|thPercentile|batch[-_]|event[-_]|[-_]ms[-_]|StdDev|FifteenMinute|FiveMinute|MeanRate|"
    "consumer|streams|classic|EventType|RateUnit|ratio-|ratio_|MaxRate",
    re.IGNORECASE,
)


def acknowledging() -> Callable[[Message], AcknowledgeType]:
    """Return a rule for deliveries: the fifth of every ten is rejected, the tenth released."""
    seen = 0

    def decide(_: Message) -> AcknowledgeType:
        nonlocal seen
        seen += 1
        special = {5: AcknowledgeType.REJECT, 0: AcknowledgeType.RELEASE}
        return special.get(seen % 10, AcknowledgeType.ACCEPT)

    return decide


def jmx(broker: KafkaBroker, form: str) -> str:
    """Return JmxTool's output for share groups, in one of its formats."""
    names = [part for bean in BEANS for part in ("--object-name", bean)]
    return broker.jmx(*names, "--one-time", "--report-format", form)


def _fetch(folder: Path) -> None:
    said = retrieve(_IVY, folder)
    if not list(folder.glob("*.jar")):
        raise RigError(f"the JMX exporter could not be fetched. Ivy said:\n{said}")


def main() -> None:
    """Record."""
    agent = build_once(cache_dir() / f"jmx-exporter-{_EXPORTER}", _fetch)
    jar = agent / f"jmx_prometheus_javaagent-{_EXPORTER}.jar"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        rules, port = Path(scratch, "rules.yml"), free_port()
        rules.write_text(_ONLY)
        agent_flag = f"-javaagent:{jar}=127.0.0.1:{port}:{rules}"
        with KafkaBroker(jmx=True, jvm_flags=[agent_flag]) as broker:
            _record(broker, port, rules)


def _record(broker: KafkaBroker, port: int, rules: Path) -> None:
    servers, decide = broker.bootstrap_servers, acknowledging()
    create_topics(servers, {"orders": 2})
    produce(servers, "orders", numbered(30, 2))
    set_group_config(servers, "billing", **{"share.auto.offset.reset": "earliest"})
    share_consume(servers, "billing", ["orders"], decide, until=30)
    _write("first.properties", jmx(broker, "properties"))
    produce(servers, "orders", numbered(20, 2))
    share_consume(servers, "billing", ["orders"], decide, until=10)
    # The coordinator updates its gauges once a minute.
    counted = "protocol=share:group-count=1"
    wait_until(
        lambda: counted in jmx(broker, "properties"), "a share group that is counted", every=5
    )
    for form in ("original", "csv", "tsv", "properties"):
        _write(f"second.{form}", jmx(broker, form), whole=form == "original")
    began = rules.stat().st_mtime
    for place, (name, text) in enumerate(RULES.items(), 1):
        rules.write_text(_ONLY + text)
        os.utime(rules, (began + 10 * place,) * 2)  # the exporter detects new rules by it
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            _write(f"{name}.prom", answer.read().decode())


def _write(name: str, text: str, whole: bool = False) -> None:
    kept = text.splitlines() if whole else [one for one in text.splitlines() if _kept(one)]
    (FOLDER / name).write_text("\n".join(kept) + "\n")


def _kept(line: str) -> bool:
    is_ours = line.startswith(("time", "kafka", "# HELP kafka", "# TYPE kafka"))
    return is_ours and not _SMALL.search(line)


if __name__ == "__main__":
    main()
