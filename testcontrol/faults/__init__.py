"""Faults on demand: rules that say which requests, what happens to them, and when.

`rule` is the model, the same for `muster.testing`, the control over HTTP and the command line. `matching` finds the
group, member or topic of a request. `actions` are what can happen. `engine` applies the rules and logs their hits.
"""
