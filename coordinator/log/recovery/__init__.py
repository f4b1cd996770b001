"""Opens a log after a stop: repairs what a crash left, and checks segments. Checks and repairs by operators use it."""
