"""Named scenarios: small ones that show one rule of Kafka each, and pains of practice."""
