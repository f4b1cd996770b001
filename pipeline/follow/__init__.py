"""Facts that are kept up to date from a live cluster. A stream appends the log exactly once; the functions of `facts`
make the facts of the touched groups anew, and all of them are replaced at once.
"""
