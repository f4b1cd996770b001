"""A play: a server and the clients of a test on one event loop. It uses virtual time, and neither sockets nor threads.
All random choices are drawn from a seed, so a run can be repeated. No time is spent on waiting.

`loop` is the event loop, whose time passes when nothing is left to do now, with its connections. `machine` is the
machine of the server. `playing` puts them together, and replaces the time and the random numbers of aiokafka.
"""
