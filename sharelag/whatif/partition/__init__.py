"""The parts of a share partition: what it holds, and one module a kind of event that changes it."""
