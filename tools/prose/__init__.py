"""What a program can find in the prose of the tree: `python -m tools.prose` is part of `make lint`."""
