"""The rows, one module per area; each has `ROWS`. See `benchmarks.harness`."""
