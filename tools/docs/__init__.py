"""The documentation site: pages that are staged from the repository, and those that are made."""
