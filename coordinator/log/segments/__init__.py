"""One log as a row of segments: files, indexes, leader epochs, and the search for offsets and timestamps."""
