"""Scripts that make what is committed: message classes and property tables, from Kafka's jars. Not shipped."""
