"""The rows, a module an area; each has `ROWS`. See `benchmarks.harness`."""
