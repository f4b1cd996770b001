"""Handlers of topics: creation, growth, deletion, description."""
