"""Does the simulator do what a real broker and real share consumers do? The same scenarios, run both ways."""
