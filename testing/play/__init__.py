"""A play: a server and the clients of a test on one event loop, in virtual time, without sockets and threads. All that
is by chance is drawn from a seed, so that a run can be played again, and takes no time that nobody needs.

`loop` is the event loop, whose time passes when nothing is left to do now; `wire` the connections; `machine` what the
server stands on; `stand_ins` the time and the chance of aiokafka; `playing` puts them together.
"""
