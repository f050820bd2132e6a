"""Spark, whichever there is: a session of this machine, of a cluster, or of Spark Connect."""

from sharelag.sources.spark.sessions import is_connect, session

__all__ = ["is_connect", "session"]
