"""Handlers of APIs about transactions."""
