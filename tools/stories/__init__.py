"""Records the stories on releases of Kafka, and writes the page that says what changed between them."""
