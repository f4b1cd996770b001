"""A cluster whose logs are in PostgreSQL: each node leads some partitions, and nothing lasts on its own machine."""
