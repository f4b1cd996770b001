"""Kafka's property definitions, distilled from its jars."""
