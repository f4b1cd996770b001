"""Draws tables and pictures into docs/ from the code, so that the docs show what the code does."""
