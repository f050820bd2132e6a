"""Spark, whichever there is: a session of this machine, of a cluster, or of Spark Connect."""

from sharelag.sources.spark.sessions import existing, is_connect, require_pyspark, session

__all__ = ["existing", "is_connect", "require_pyspark", "session"]
