"""The version of sharelag."""

__version__ = "0.1.0"
