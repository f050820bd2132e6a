"""Incidents that are played on real brokers, recorded, and played again with a change."""
