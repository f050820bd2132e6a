"""Saved data of a cluster: captures, archives, a broker's segments."""
