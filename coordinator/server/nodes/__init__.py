"""The brokers of one process, which share the logs. Each has its listeners, connections and shards. This package also
has the leaders of partitions, and how brokers stop, die and return.
"""
