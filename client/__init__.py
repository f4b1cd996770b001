"""A small Kafka client for the commands and for `muster.testing`. It works with any broker from Kafka 3.0 on.

* `kafka_client.py`: `KafkaClient` knows the nodes of a cluster, and sends each request to a node that can answer it.
* `connection.py`: a connection to one node, and the versions of the requests.
* `security.py`: TLS and SASL as in Kafka's client properties; `oauth_login.py`: tokens of OAUTHBEARER.
* `event_reader.py`: the events of groups and of transactional ids, which only Muster has.
* `hints.py`: what kind of server listens at an address that gave an unexpected answer.

A failure is `RequestFailed`: one sentence for the user, which says what failed and, if known, what to do.
"""
