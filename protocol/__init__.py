"""Kafka's protocol: bytes <-> messages. Pure: no socket, clock, file or random in here.

`hub` is the door for servers (header and bytes in, newest-shape message out, and back), `api` the table of APIs,
`frames` splits and builds frames, `messages` holds the generated classes, `records` keys and values of Kafka's logs.
"""
