"""Where raw rows come from: segment files, a live cluster, any DataFrame of Kafka rows."""
