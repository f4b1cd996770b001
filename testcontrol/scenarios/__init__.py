"""What goes wrong in real clusters, by name: made of rules of faults, of verbs on groups and nodes, and of the disk.

`stage` is what a scenario is made with; `of_groups`, `of_nodes` and `of_storage` are the scenarios; `running` starts
and ends them.
"""
