"""What happens to the groups of a sample: one script each, as told in `stories`."""
