"""The parts of a simulation: chance, logs, brokers, the group coordinator, clients, and what is counted."""
