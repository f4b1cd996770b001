"""Opens a log after a stop: repairs what a crash left, and checks segments. An operator checks and repairs with it."""
