"""`muster log check` and `muster log repair`: finds damage in the files of a partition, and repairs it."""
