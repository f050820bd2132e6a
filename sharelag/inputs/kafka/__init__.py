"""A running cluster: its topics, offsets, logs and settings."""
