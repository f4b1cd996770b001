"""What would have happened under other settings: the history of each group, replayed on the server's own core.

`history` is what the log has of a group, `schedule` what came from outside of the group. `replay` plays that on a new
core in virtual time. `compare` compares the replay of the real settings with what happened. `job` does all of it for
many groups in Spark. All modules but `job` are pure: no Spark, no clock, no randomness.
"""
