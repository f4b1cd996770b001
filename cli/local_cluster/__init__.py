"""`muster cluster try` starts a PostgreSQL, and several nodes that use it, with one command on this machine."""
