"""When members that go and come again are trouble, and what it is called: for the events of the server, and for the
verdicts of the pipeline, so that both say the same. The server must not import the pipeline.
"""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND

RETURN_MS: Final = 10 * MINUTE
"""A process of the same instance id, or the same client id and host, that comes within this time is the one that went,
come back."""
LOOP_MS: Final = 15 * MINUTE
"""A process that goes again so soon after it came back is in a loop."""
LOOPS: Final = 3
"""So many times a process must have gone and come back for a crash loop."""
TWO_LOOP: Final = 5
"""So many times two processes together, each at least twice, for flapping between two."""

CRASH_LOOP: Final = "crash_loop"
FLAPPING: Final = "flapping"
SLOW: Final = "slow_poller"
POLLED_TOO_LATE: Final = "poll timeout"
"""In the reason with which a client leaves whose application has not polled in time."""


def told(kind: str, names: str, *, over: bool = False, again: bool = True, died: bool = True) -> str:
    """What is said of it. `over`: it has ended; `again`: a slow poller was put out more than once; `died`: it did not
    always say goodbye. (One that does may fail in good order, or somebody starts and stops it.)
    """
    if kind == FLAPPING:
        return f"{names} {'took' if over else 'take'} turns in coming and going"
    if kind == SLOW:
        return f"{names} polled too slowly and was put out{' again and again' if again else ''}"
    if not died:
        return f"{names} {'kept' if over else 'keeps'} leaving and coming back"
    return f"{names} {'crash-looped' if over else 'crash-loops'}"
