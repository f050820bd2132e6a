"""The answers of `sharelag.pipeline` in one process without a JVM, for inputs that fit in RAM."""

from sharelag.quick.reading import QuickReading

__all__ = ["QuickReading"]
