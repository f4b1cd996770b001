"""What the state machines of all coordinators share: the values that they exchange with the runtime, and deadlines."""
