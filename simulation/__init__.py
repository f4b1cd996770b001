"""The simulator: groups, shards or a whole node in virtual time, and the clients that use them.

`actor` and `consumer` are the clients. A world (`virtual.world`) passes their requests to a core or to shards as
messages. Or it passes them as bytes over `network` to a `process`. That is a whole server on the machine of `virtual`.
One integer, the seed, makes the same history again. `sample` is part of the product: `muster log sample` writes a log
with it.
"""
