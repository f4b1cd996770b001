"""`muster log` inspects and repairs a data directory, also one of Apache Kafka, and makes a sample of a group log."""
