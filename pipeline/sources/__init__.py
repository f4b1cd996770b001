"""Sources of raw rows: segment files, a live cluster, any DataFrame of Kafka rows."""
