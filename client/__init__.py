"""A small Kafka client for commands and tests: it asks any broker, and needs nothing but Muster's own protocol."""
