"""What the state machines of all coordinators share: the words they exchange with the runtime, and their deadlines."""
