"""A session of Spark Connect has our settings, unless it was there before."""

import pytest

from tests.support.own_process import SCRIPT, run_python


@pytest.mark.exhaustive  # a Spark Connect server of its own
def test_spark_remote_says_where_spark_is(remote: str) -> None:
    """The server's master, UI address and the rest stay; it gets what a session may set."""
    code = SCRIPT.replace('session("ours"', 'session("ours", spark_master="local[7]"')
    done = run_python("-c", code, SPARK_REMOTE=remote)
    assert "told: True local[2] UTC 5 false 180s" in done.stdout, done.stderr[-2000:]
    assert "Failed to set" not in done.stderr


@pytest.mark.exhaustive
def test_a_session_of_spark_connect_is_returned_as_it_is(remote: str) -> None:
    code = (
        "from pyspark.sql import SparkSession\n"
        "from sharelag.inputs.spark import is_connect, session\n"
        f"theirs = SparkSession.builder.remote({remote!r}).getOrCreate()\n"
        "theirs.conf.set('spark.sql.session.timeZone', 'Asia/Tokyo')\n"
        "print('told:', session() is theirs, is_connect(theirs), "
        "theirs.conf.get('spark.sql.session.timeZone'))\n"
    )
    done = run_python("-c", code)
    assert done.stdout == "told: True True Asia/Tokyo\n", done.stderr[-2000:]
