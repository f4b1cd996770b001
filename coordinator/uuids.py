"""Random ids as Kafka draws them, from random bytes: those of the system, or those of a test."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Callable, Mapping

RandomBytes = Callable[[int], bytes]
"""Gives so many random bytes."""


def draw_uuid(random_bytes: RandomBytes = os.urandom) -> bytes:
    """The id of a topic, a cluster or a directory, as Kafka's Uuid.randomUuid draws it: 16 bytes, version 4, never one
    whose text begins with a dash.
    """
    while True:
        drawn = uuid.UUID(bytes=random_bytes(16), version=4).bytes
        if not base64.urlsafe_b64encode(drawn).startswith(b"-"):
            return drawn


def draw_uuid_text(random_bytes: RandomBytes = os.urandom) -> str:
    """A UUID of version 4 as Java's UUID.toString writes it: member ids end in one."""
    drawn = random_bytes(16).hex()
    # the version and the two variant bits, set in the text: uuid.UUID costs three times as much
    return f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-{_VARIANT[drawn[16]]}{drawn[17:20]}-{drawn[20:]}"


_VARIANT: Mapping[str, str] = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
