"""The data pipeline: what the groups did, from a group log. It runs on Spark; reading and decoding also work without
it.

Imports only protocol, assignors and coordinator.groups of Muster. Needs `pip install 'muster-kafka[spark]'`; nothing of
the server imports it.
"""
