"""The lines that the server logs: their look, their levels, how often the same is said, and the thread that writes."""
