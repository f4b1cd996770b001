"""Muster for tests of applications with Kafka consumers: a server in the test's own process, or beside it.

Uses the server as any program may (`coordinator.server`), and what `coordinator.rehearsal` does to one.
"""
