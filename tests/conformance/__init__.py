"""Unmodified Java 4.3 clients and tools against a running server: `make conformance-clients` (Java 17+ and Maven needed).

Not part of `make test`: collected only when this folder is named. `MUSTER_TEST_SERVER=kafka` runs the same on Apache Kafka.
"""
