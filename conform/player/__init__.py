"""The player of stories: what clients ask of a broker step by step, and what the answers must be."""
