"""Topics and partitions: the metadata log, and the logs that clients produce to and fetch from."""
