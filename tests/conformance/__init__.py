"""Unmodified Java 4.4 clients and tools on a running server: `make conformance-clients` (needs Java 17+ and Maven).

Not part of `make test`: collected only when this folder is named. `MUSTER_TEST_SERVER=kafka` runs the same tests on
Apache Kafka.
"""
