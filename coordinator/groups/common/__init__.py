"""What groups of all types share: the words of the interface, state, deadlines, images, offsets."""
