"""The event loop of a simulation: kernels over arrays, run as plain Python or compiled."""
