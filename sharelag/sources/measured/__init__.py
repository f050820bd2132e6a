"""Figures that brokers and clients measure themselves, from dumps and from live addresses."""
