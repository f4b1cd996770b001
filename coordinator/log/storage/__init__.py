"""Where the bytes of logs lie: on a disk or in memory, open files, the directory lock, shared syncs."""
