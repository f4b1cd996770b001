"""The simulator: groups, shards or a whole node in virtual time, and the clients that use them.

`world` has time and random numbers, `actor` and `consumer` are the clients. A world passes their requests to a core or
to shards as messages. Or it passes them as bytes over `network` and `wires` to a `process`. That is a whole server on a
virtual machine, over a `faulty_storage`. One integer makes the same history again.

`sample` is part of the product: `muster log sample` writes a log with it.
"""
