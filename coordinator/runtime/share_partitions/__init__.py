"""The share partitions that a node leads: what the core decides, with the log, the persister and timers."""
