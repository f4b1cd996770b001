"""The data pipeline reads a group log, and shows what the groups did.

It runs on Spark; reading and decoding work without Spark. Of Muster the pipeline imports only protocol, assignors and
coordinator.groups. It needs `pip install 'muster-kafka[spark]'`; the server never imports it.
"""
