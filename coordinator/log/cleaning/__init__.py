"""Log compaction (Kafka: LogCleaner): which log is due, which records stay, and how the result replaces segments."""
