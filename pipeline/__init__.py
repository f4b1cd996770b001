"""The data pipeline: what the groups did, from a group log. It runs on Spark; reading and decoding work without it.

It imports only protocol, assignors and coordinator.groups of Muster. It needs `pip install 'muster-kafka[spark]'`;
nothing of the server imports it.
"""
