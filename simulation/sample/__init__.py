"""A sample of a group log: a day in the life of many groups, made by the server's own core, shards, journal and log in
virtual time, from a seed.

What the pipeline, its tests and measures read when nobody has a log at hand. `writing.write` makes a Muster data
directory; beside it lies `truth.jsonl` with what really happened, as the scripts of the groups meant it and not as the
server told it. The same seed and the same end give the same bytes. No socket and no clock but the one it moves itself.
"""
