"""Kafka's protocol: turns bytes into messages, and messages into bytes. Uses no socket, clock, file or random number.

`api` is the table of APIs, `frames` splits and builds frames, `messages` has the generated classes. `records` decodes
and encodes the keys and values of Kafka's internal logs.
"""
