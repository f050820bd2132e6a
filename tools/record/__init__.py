"""Recorders of the captures, stories and experiments in `data/`, on real brokers."""
