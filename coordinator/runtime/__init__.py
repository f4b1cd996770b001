"""The runtime of a coordinator: a state machine for each partition of its log, kept in step with that log."""
