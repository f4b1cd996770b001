"""The simulator: groups, shards or a whole node in virtual time, and the clients that use them.

`world` is time and chance, `actor` and `consumer` are the clients. A world takes their requests to a core or to shards
as messages, or over `network` and `wires` as bytes to a `process`: a whole server on a virtual machine, over a
`faulty_storage`. `sample` makes the log of `muster log sample`. One integer makes the same history again.
"""
