"""Widgets that show share groups: arrays and labels in, pictures and selections out."""
