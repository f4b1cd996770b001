"""`muster cluster try` starts, with one command, an own PostgreSQL and several nodes that use it, on this machine."""
