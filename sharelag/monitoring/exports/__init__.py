"""Exports for other programs: metrics to scrape, a value to scale by, tables for a lake."""
