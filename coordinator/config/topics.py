"""`--topic NAME:PARTITIONS`: topics to create at the start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from muster.coordinator.config.error import ConfigError

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
MAX_PARTITIONS = 100_000
"""Kafka creates no topic with more partitions in one request by default. A typing error would fill the disk."""


def parse_topics(specs: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """(name, partitions) of each option, in their order. Raises ConfigError naming the option's text."""
    found: dict[str, int] = {}
    for spec in specs:
        name, colon, count = spec.rpartition(":")
        if not colon or not count.isascii() or not count.isdecimal():
            raise ConfigError(f"--topic '{spec}' is not NAME:PARTITIONS, as in --topic orders:8")
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise ConfigError(
                f"--topic '{spec}': '{name}' is no topic name; expected 1 to 249 of the characters a-z A-Z 0-9 . _ -"
            )
        if len(count) > 9 or not 1 <= int(count) <= MAX_PARTITIONS:
            raise ConfigError(f"--topic '{spec}': expected 1 to {MAX_PARTITIONS} partitions")
        if name in found:
            raise ConfigError(f"--topic '{spec}': the topic {name} is given twice")
        found[name] = int(count)
    return tuple(found.items())
