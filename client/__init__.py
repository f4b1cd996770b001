"""A small Kafka client for commands and tests. It works with any broker, and needs only Muster's protocol package."""
