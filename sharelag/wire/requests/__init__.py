"""Requests of share groups in a broker's log."""
