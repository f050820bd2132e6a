"""What `make` runs beside the package: pages, checks, recordings."""
