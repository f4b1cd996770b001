"""`muster cluster try`: a PostgreSQL of its own and several nodes over it, on this machine, as one command.

`options.py` has the options, and `command.py` runs with them. `supervisor.py` starts, watches and stops everything: the
database (`embedded_postgres.py`) and each node (`node_process.py`). `directory.py` manages their working directory.
"""
