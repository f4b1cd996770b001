"""Draws the tables of the core into docs/, so that what is documented is what is decided."""
