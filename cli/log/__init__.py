"""`muster log`: inspect a data directory, also one of Apache Kafka, repair it, or make a sample of one."""
