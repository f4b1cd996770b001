"""The test control: a test reads groups and waits for them, forces and holds rebalances, and removes members. A test
also makes requests fail and moves time. `muster.testing` and the control over HTTP have the same verbs.

All code here runs on the server's own event loop. The test control stands above the server, which does not know it. A
server without test control does not import this package, and pays nothing for it.
"""
