"""What groups of all types share: events, state, settings, images of the topics, offsets."""
