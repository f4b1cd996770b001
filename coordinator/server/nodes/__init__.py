"""The brokers of one process: each with its listeners, connections and shards, on the logs that they share; who of them
leads what; and how they stop, die and return.
"""
