"""Topics and partitions: the metadata log, and what clients produce to and fetch from.

Knows no request and no connection; the handlers of `coordinator.api` call it.
"""
