"""The server: a pure core of groups (`groups/`) in a thin shell of log, topics, shards, handlers and connections."""
