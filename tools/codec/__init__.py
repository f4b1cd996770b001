"""Compiles Kafka's message definitions into protocol/messages/ (see generate.py); not part of the product."""
