"""Handlers of client quotas: describe and alter them."""
