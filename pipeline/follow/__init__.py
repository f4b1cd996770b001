"""The facts kept up to date from a live cluster: a stream appends what is logged, exactly once; the facts of the groups
that were touched are made anew by the functions of `facts`, and put in the place of the old ones all at once.
"""
