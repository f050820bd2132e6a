"""A real Prometheus stores our metrics as the lag table has them."""

import subprocess
from pathlib import Path

from sharelag.inputs import CaptureInput
from sharelag.monitoring.exports import application
from tests.support.chapters import CAPTURE
from tests.support.kafka.prometheus import prometheus, prometheus_bin
from tests.support.scrapes import ask, gathered, running

TOKEN = "only-for-this-test"


def test_it_stores_what_the_lag_table_says(tmp_path: Path) -> None:
    now = gathered(CaptureInput(CAPTURE))
    assert now.evidence is not None
    with running(lambda: now, TOKEN) as port, prometheus(tmp_path, port, TOKEN) as server:
        target = server.scraped()
        assert (target["health"], target["lastError"]) == ("up", "")
        stored = {
            (result["group"], result["topic"], int(result["partition"])): value
            for result, value in server.values("kafka_share_group_lag")
        }
        assert stored == {
            (row["group_id"], row["topic"], row["partition"]): row["lag"]
            for row in now.evidence.lag.to_pylist()
            if row["lag"] is not None
        }
        ((_, sums),) = server.values('sum(kafka_share_group_lag{group="billing"})')
        assert sums == 2390
        assert server.values('absent(kafka_share_group_sum_lag{group="analytics"})') != []


def test_its_own_linter_minds_kafkas_name_for_a_count_and_nothing_else() -> None:
    text = ask(application(lambda: gathered(CaptureInput(CAPTURE))), "/metrics")[2]
    tool = [str(prometheus_bin() / "promtool"), "check", "metrics"]
    checked = subprocess.run(tool, input=text, capture_output=True, check=False)
    (said,) = checked.stderr.decode().splitlines()
    assert said.startswith("kafka_share_group_delivery_complete_count non-histogram")
    assert said.endswith('should not have "_count" suffix')
