"""The time that requests give the controller to change topics."""

from __future__ import annotations


def timed_out(timeout_ms: int) -> bool:
    """Has the time passed already when the request arrives? Every row of it is then REQUEST_TIMED_OUT.

    Changes are made at once here; only a client that leaves no time at all (0 or less) can be too late, as on Kafka.
    """
    return timeout_ms <= 0
