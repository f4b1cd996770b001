"""A cluster whose logs are in PostgreSQL: each node leads some partitions, and its machine keeps nothing durable."""
