"""The generator of worst cases: for each API the largest legal requests over the largest legal state, and the longest
piece of work that they cause between two returns to the event loop. It counts instructions and not time, so that a
result is the same on every machine. `MUSTER_WORST=whole python -m pytest tests/worst` takes the limits as they are, and
ten times as many rows: some ten minutes.
"""
