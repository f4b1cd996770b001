"""A play: a server and the clients of a test on one event loop. It uses virtual time, and neither sockets nor threads.
All random choices are drawn from a seed, so a run can be repeated. No time is spent on waiting.

`loop` is the event loop, whose time passes when nothing is left to do now. `wire` has the connections. `machine` is the
machine of the server. `stand_ins` replaces the time and the random numbers of aiokafka. `playing` puts them together.
"""
