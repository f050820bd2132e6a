"""The parts of a comparison: which variants, what is measured, and what intervals say."""
