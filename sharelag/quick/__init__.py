"""The quick look: the answers of `sharelag.pipeline` in one process, without a JVM, for inputs that fit into it."""

from sharelag.quick.reading import QuickReading

__all__ = ["QuickReading"]
