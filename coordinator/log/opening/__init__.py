"""Opens a log: repairs what a crash left, checks the segments and recovers them."""
