"""The parts of a simulation: random streams, logs, brokers, coordinator, clients, counters."""
