"""Committed offsets of groups of all types: commit, fetch, deletion, retention."""
