"""The event loop of a simulation over arrays, compiled: what `sharelag.whatif.simulation` does."""
