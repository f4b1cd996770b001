"""What time it is: what is asked of a cluster is of now, and nothing was logged later than that."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
