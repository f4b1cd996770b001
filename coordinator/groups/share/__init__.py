"""Share groups (KIP-932), whose members take records of the same partitions. Start at `heartbeat`."""
