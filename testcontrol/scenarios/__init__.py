"""Failures of real clusters, by name. They consist of rules of faults, of verbs on groups and nodes, and the disk."""
