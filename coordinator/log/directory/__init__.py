"""A data directory: its identity, the folders of partitions, and the small files in it."""
