"""Programs behind `make` that are not in the package: pages, checks, recordings."""
