"""A real Kafka broker and Kafka's own classes, for tests and for recording captures."""
