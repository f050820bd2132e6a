"""Assignors, one function each; `sharelag.whatif.assignors.registry` knows them by name."""
