"""Failures of real clusters, by name. They are made of rules of faults, of verbs on groups and nodes, and of the disk.

`stage` has the parts of a scenario. `of_groups`, `of_nodes` and `of_storage` are the scenarios. `running` starts and
ends them.
"""
