"""`muster console`: the console over any Kafka cluster (docs/console.md)."""
