"""Makes the table of Kafka's properties from Kafka's jars."""
