"""Makes work in a thread leave time for the event loop (Kafka: Throttler): short slices with pauses between them.

So the work never has more than its share of a core, nor of the disk. CPython runs one thread at a time. A thread that
computes for long delays the event loop by some ms each time the loop wants to run.
"""

from __future__ import annotations

from threading import Event

from muster.coordinator.system.clock import thread_cpu_s

SLICE_S = 0.001
"""How long the work runs before it may pause."""


class Stopped(Exception):
    """The server stops: the work must end."""


class Throttle:
    """The pauses of one job. When `stop` is set, `spent` raises `Stopped`."""

    def __init__(self, stop: Event, *, cpu_share: float, bytes_per_second: float) -> None:
        """`cpu_share`: share of one core, up to 1 (no pauses). `bytes_per_second`: the limit of bytes read and
        written.
        """
        self._stop = stop
        self._pause_per_s = (1 - cpu_share) / cpu_share
        self._bytes_per_second = bytes_per_second
        self._bytes = 0
        self._since_s = thread_cpu_s()

    def begin(self) -> None:
        """Go on with the job, perhaps in another thread than before."""
        self._since_s = thread_cpu_s()

    def spent(self, count: int) -> None:
        """Note that so many bytes were read or written, and pause if necessary. Raises Stopped."""
        self._bytes += count
        now_s = thread_cpu_s()
        used_s = now_s - self._since_s
        if used_s < SLICE_S and not self._stop.is_set():
            return
        pause_s = max(used_s * self._pause_per_s, self._bytes / self._bytes_per_second - used_s)
        self._bytes = 0
        if self._stop.wait(pause_s) if pause_s > 0 else self._stop.is_set():
            raise Stopped
        self._since_s = thread_cpu_s()
