"""When members that leave and join again are a problem, and the names of the problems.

The events of the server and the verdicts of the pipeline share these rules, so that both say the same. The server must
not import the pipeline.
"""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND

RETURN_MS: Final = 10 * MINUTE
"""How soon a process must join to count as the one that left before.

It is of the same instance id, or of the same client id and host.
"""
LOOP_MS: Final = 15 * MINUTE
"""A process that leaves again so soon after it returned is in a loop."""
LOOPS: Final = 3
"""How often a process must have left and returned for a crash loop."""
TWO_LOOP: Final = 5
"""How often two processes together, each at least twice, must have done so for flapping between two."""

CRASH_LOOP: Final = "crash_loop"
FLAPPING: Final = "flapping"
SLOW: Final = "slow_poller"
POLLED_TOO_LATE: Final = "poll timeout"
"""The reason with which a client leaves whose application has not polled in time contains this text."""


def told(kind: str, names: str, *, over: bool = False, again: bool = True, died: bool = True) -> str:
    """The sentence about unstable members.

    `over`: the problem has ended. `again`: a slow poller was removed more than once. `died`: the member did not always
    leave by LeaveGroup. A member that always does may fail in an orderly way, or somebody starts and stops it.
    """
    if kind == FLAPPING:
        return f"{names} {'took' if over else 'take'} turns in coming and going"
    if kind == SLOW:
        return f"{names} polled too slowly and was put out{' again and again' if again else ''}"
    if not died:
        return f"{names} {'kept' if over else 'keeps'} leaving and coming back"
    return f"{names} {'crash-looped' if over else 'crash-loops'}"
