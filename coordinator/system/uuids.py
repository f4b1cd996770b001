"""Random ids as Kafka draws them. The random bytes come from the system, or from a test."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Callable

RandomBytes = Callable[[int], bytes]
"""Returns a number of random bytes."""


def draw_uuid(random_bytes: RandomBytes = os.urandom) -> bytes:
    """Draw the id of a topic, a cluster or a directory: Uuid.randomUuid, whose text never begins with a dash."""
    while True:
        drawn = uuid.UUID(bytes=random_bytes(16), version=4).bytes
        if not base64.urlsafe_b64encode(drawn).startswith(b"-"):
            return drawn


def as_text(drawn: bytes) -> str:
    """Return a drawn id as Kafka's Uuid.toString writes it."""
    return base64.urlsafe_b64encode(drawn).rstrip(b"=").decode()


def draw_uuid_text(random_bytes: RandomBytes = os.urandom) -> str:
    """Draw a UUID of version 4 as Java's UUID.toString writes it: member ids end in such a UUID."""
    return str(uuid.UUID(bytes=random_bytes(16), version=4))
