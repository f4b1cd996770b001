"""Topics and partitions: the metadata log, and the logs that clients produce to and fetch from.

This package knows no request and no connection. The handlers of `coordinator.api` call it.
"""
