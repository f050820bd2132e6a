"""Presentation of tables: columns, views, levels of severity, and rendering."""
