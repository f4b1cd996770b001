"""Connect's strategies: which worker runs which connectors and tasks (protocol type "connect", KIP-415).

`eager` shares everything out anew in each rebalance; `incremental` moves as little as it can and waits a while for
workers that went away; `leader` is what the group's leader does: workers' metadata in, their assignments out, as bytes.
These do not share the protocol of the consumer's assignors: they carry a state from one rebalance to the next.
"""
