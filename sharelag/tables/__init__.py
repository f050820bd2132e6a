"""What tables look like to people: columns, views, levels of severity, and rendering."""
