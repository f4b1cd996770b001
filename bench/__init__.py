"""Measures what the server costs, beside a real Apache Kafka: `make bench` writes results.md."""
