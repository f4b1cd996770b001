"""Kafka's protocol: bytes <-> messages. Pure: no socket, clock, file or random in here.

`api` is the table of APIs, `frames` splits and builds frames, `messages` has the generated classes. `records` has the
keys and values of Kafka's logs.
"""
