"""Inputs: the only code that accesses brokers, disks and Spark sessions."""
