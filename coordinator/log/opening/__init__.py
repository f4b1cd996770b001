"""Opening a log: leftovers of a crash are put right, segments are checked and recovered."""
