"""A machine in virtual time, on which a server runs in the simulator and in a play of `muster.testing`.

`world` has the time, the future events and the random numbers. `machine` has the event loop, threads and listeners of a
process. `wires` has the connections of a process, and `faulty_storage` a disk that fails.
"""
