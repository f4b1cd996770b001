"""Finds faults in docs, docstrings and comments: `python -m tools.prose` is part of `make lint`."""
