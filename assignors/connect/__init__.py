"""Connect's strategies: which worker runs which connectors and tasks (protocol type "connect", KIP-415).

`eager` assigns everything anew in each rebalance. `incremental` moves as little as it can and waits for workers that
left. `leader` does the work of the group's leader, from the bytes of metadata to the bytes of assignments. Unlike the
consumer's assignors, they keep a state from one rebalance to the next.
"""
