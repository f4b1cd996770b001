"""Handlers of APIs that create, enlarge, delete and describe topics."""
