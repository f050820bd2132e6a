"""The documentation site: pages staged from the repository, and generated pages."""
