"""A cluster whose logs are in PostgreSQL: each node leads some partitions, and nothing durable is on its own machine."""
