"""Spark sessions: local, on a cluster, or through Spark Connect."""

from sharelag.inputs.spark.sessions import existing, is_connect, require_pyspark, session

__all__ = ["existing", "is_connect", "require_pyspark", "session"]
