"""`muster cluster try`: a PostgreSQL of its own and several nodes over it, on this machine, as one command."""
