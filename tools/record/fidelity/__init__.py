"""Compare the simulator with a real broker and real share consumers on the same scenarios."""
