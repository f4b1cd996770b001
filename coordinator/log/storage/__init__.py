"""Where the bytes of logs are: on a disk or in memory; open files, the directory lock, shared syncs."""
