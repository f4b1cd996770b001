"""What would have happened under other settings: the history of each group, replayed through the server's own core.

`history` is what the log tells of a group, `schedule` what of it came from outside, `replay` plays that on a new core
in virtual time, `fidelity` compares the replay of the real settings with what happened, `job` does all of it for many
groups in Spark. All but `job` is pure: no Spark, no clock, no randomness.
"""
