"""Makes load for any server that speaks Kafka's protocol. The client's work is the same for every server."""
