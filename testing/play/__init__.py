"""A play: a server and the clients of a test on one event loop. It uses virtual time, and neither sockets nor threads.
All random choices are drawn from a seed, so a run can be repeated. No time is spent on waiting.

The server runs on a machine of `virtual`. `loop` is the event loop, with the clients' ends of connections. `playing`
puts them together, and replaces the time and the random numbers of aiokafka.
"""
