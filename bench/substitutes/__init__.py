"""Measures Muster beside the other servers that tests of consumers run in place of Kafka: see `__main__`."""
