"""The data pipeline reads a group log, and shows what the groups did.

It runs on Spark; reading and decoding work without Spark. The pipeline imports only Muster's protocol, assignors and
pure cores. It needs `pip install 'muster-kafka[spark]'`; the server never imports it.
"""
