"""The event loop of a simulation: kernels over arrays, which run in plain Python or compiled."""
