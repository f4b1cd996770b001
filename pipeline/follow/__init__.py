"""Tables that are kept up to date from a live cluster. A stream appends the log exactly once.

The functions of `tables` make the tables of the touched groups again, and all of them are replaced at once.
"""
