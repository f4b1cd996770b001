"""Draws the tables of the core into docs/groups.md, so that what is documented is what is decided."""
