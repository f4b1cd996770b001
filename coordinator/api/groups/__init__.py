"""Handlers of groups: membership, committed offsets, and the administration of groups."""
