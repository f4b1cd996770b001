"""What the operating system has not delivered yet of the bytes that a socket was given."""

from __future__ import annotations

import struct

try:
    import fcntl
    import termios
except ImportError:  # Windows: what was given to the system counts as delivered
    fcntl = None  # type: ignore[assignment]


def undelivered_bytes(descriptor: int) -> int:
    """Bytes that the peer's system has not confirmed; 0 where that cannot be asked, or for a negative descriptor."""
    if fcntl is None or descriptor < 0:
        return 0
    try:
        (size,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
    except OSError:
        return 0
    return int(size)
