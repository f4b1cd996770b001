"""The brokers of one process, which share the logs: their listeners and shards, and how they stop, die and return."""
