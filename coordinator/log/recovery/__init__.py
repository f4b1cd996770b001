"""Opens a log after a stop: repairs what a crash left, and checks segments. Operators' checks use this package."""
