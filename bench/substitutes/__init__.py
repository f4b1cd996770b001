"""What else a test of a consumer can run in place of Kafka, measured beside Muster: see `__main__`."""
