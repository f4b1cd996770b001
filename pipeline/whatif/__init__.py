"""What would have happened under other settings: the history of each group is replayed on the server's own core.

`history` is what the log has of a group, and `schedule` the facts that came from outside of the group. `replay` plays
these facts on a new core in virtual time. `compare` compares the replay of the real settings with what happened. `job`
does all of this for many groups in Spark. All modules but `job` are pure: they use no Spark, no clock and no random
numbers.
"""
