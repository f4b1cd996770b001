"""Handlers of APIs about groups: membership, committed offsets, and administration."""
