"""What would have happened under other settings: the history of each group, replayed through the server's own core.

`history` is what the log tells of a group, `schedule` what of it came from outside (who came, went, fell silent, when),
`replay` plays that on a fresh core in virtual time, `fidelity` says whether the replay of what really held gives what
really was, `job` does all of it for many groups in Spark. All but `job` is pure: no Spark, no clock, no randomness.
"""
