"""Hostile input: bytes that no client of Kafka sends, to a whole node in memory and to a server process."""
