"""A play runs a server and the clients of a test on one event loop. It uses virtual time, and neither sockets nor
threads. All random choices come from a seed, so a run can be repeated. Waiting takes no real time.

The server runs on a machine of `virtual`. `loop` has the event loop and the clients' ends of connections. `playing`
runs a play, and replaces the time and the random numbers of aiokafka.
"""
