"""The answers of `sharelag.engine.spark` in one process without a JVM, for what fits in RAM."""

from sharelag.engine.local.reading import QuickReading

__all__ = ["QuickReading"]
