"""What a test does to a running server, and asks of it: look at groups and wait for them, force and hold rebalances,
remove members, make requests fail, move time. The same verbs for `muster.testing` and for the control over HTTP.

Everything here runs on the server's own event loop. It stands above the server, which knows nothing of it: a server
that nobody rehearses with does not import it, and pays nothing for it.
"""
