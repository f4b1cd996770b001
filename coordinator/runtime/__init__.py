"""The runtime of a coordinator: for each partition of its topic a state machine, whose state follows the log."""
