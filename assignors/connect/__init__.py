"""Connect's strategies, which decide which worker runs which connectors and tasks (protocol type "connect", KIP-415).

`leader` does the work of the group's leader, from the bytes of metadata to the bytes of assignments. It also has the
eager strategy, which assigns everything again in each rebalance. `incremental` moves as little as it can and waits for
workers that left. Unlike a consumer's strategy, it needs a state from one rebalance to the next.
"""
