"""Checks by rules, and exports to other systems."""
