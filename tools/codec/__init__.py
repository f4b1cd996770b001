"""Compiles Kafka's message definitions into protocol/messages/ (see generate.py). This package is not shipped."""
