"""`muster log check` and `muster log repair`: looking for damage in the files of a partition, and repairing it."""
