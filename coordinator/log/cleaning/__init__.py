"""Log compaction (Kafka: LogCleaner): chooses the logs and the records to keep, and replaces segments."""
