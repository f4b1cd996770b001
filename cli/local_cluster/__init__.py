"""`muster cluster try`: a PostgreSQL of its own and several nodes over it, on this machine, as one command.

`command.py` runs it, in its working directory. `supervisor.py` starts, watches and stops everything: the database
(`embedded_postgres.py`) and each node (`processes.py`).
"""
