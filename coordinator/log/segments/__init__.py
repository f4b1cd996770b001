"""One log as a row of segments: files, indexes, leader epochs, and how offsets and timestamps are found in them."""
