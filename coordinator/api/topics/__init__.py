"""Handlers of topics: create, enlarge, delete and describe them."""
