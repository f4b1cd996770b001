"""The present wall time, and wall times as texts, for commands and clients, which have no event loop."""

from __future__ import annotations

import datetime
import time

UTC = datetime.UTC


def wall_now_ms() -> int:
    """The wall time of the machine, in ms since 1970."""
    return time.time_ns() // 1_000_000


def parse_wall_ms(text: str) -> int:
    """Parse a wall time (ms since 1970): ISO 8601 or `now`, in UTC unless the text has a zone. Raises ValueError."""
    if text == "now":
        return wall_now_ms()
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def format_wall(wall_ms: int, form: str, zone: datetime.tzinfo | None = None) -> str:
    """Format a wall time by strftime's `form`. `zone`: None means the machine's zone."""
    return datetime.datetime.fromtimestamp(wall_ms / 1000, zone).strftime(form)
