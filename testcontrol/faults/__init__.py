"""Faults on demand: rules that say which requests, what happens to them, and when; and scenarios made of these.

`rule` is the model, the same for `muster.testing`, the control over HTTP and the command line; `matching` finds what a
request is about; `actions` are what can happen; `engine` applies the rules and keeps the log of what they hit.
"""
