"""Failures of real clusters, by name: faults of requests and of the disk, and verbs on groups and nodes."""
