"""The data pipeline: tells from a group log what the groups did. Runs on Spark; what turns bytes into tables needs no
Spark and can be used without it.

Imports only protocol, assignors and coordinator.groups of Muster. Needs `pip install 'muster-kafka[spark]'`; nothing of
the server imports it.
"""
