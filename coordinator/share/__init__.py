"""Share partitions (KIP-932): which records are acquired, acknowledged or archived, as a pure state machine."""
