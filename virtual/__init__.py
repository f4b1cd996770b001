"""A machine in virtual time: what a server runs on in the simulator, and in a play of `muster.testing`.

`world` has the time, the future events and the random numbers. `machine` has the event loop, threads and listeners of a
process. `wires` has its connections, and `faulty_storage` a disk that fails.
"""
