"""The lines that the server logs: their format, their levels, the limit of repeated lines, and the writing thread."""
