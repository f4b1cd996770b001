"""A small Kafka client for the commands and for `muster.testing`. It works with any broker from Kafka 3.0 on.

`kafka_client.py` sends each request to a node that can answer it, over one `connection.py` for each node.
`event_reader.py` reads histories, and `hints.py` explains unexpected answers. A failure raises `RequestFailed`: one
sentence for the user, which says what failed and, if known, what to do.
"""
