"""Changes of the bytes of a frame."""

from __future__ import annotations

from random import Random
from typing import Final

HEAD: Final = 8
"""Length, key, version: they are changed less often, otherwise nearly no frame would pass the header."""
EXTREMES: Final = (
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\0\0\0\0",
    b"\x7f\xff",
    b"\xff\xff",
    b"\x80\x80\x80\x80\x00",
    b"\xff" * 20,
)
"""Lengths, counts and varints that exceed the bytes of the frame."""
MAX_BYTES: Final = 200_000
"""Longer frames would only grow, and fill the sender's memory."""


def mutated(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Another frame, mostly with the correct length in front. `other`: a part of it may be copied in."""
    body = bytearray(frame[4:])
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        _change(rng, body, other)
    del body[MAX_BYTES:]
    size = len(body)
    if rng.random() < 0.04:
        size = rng.choice((-1, 0, size + 1, size - 1, size + 1_000, 2**31 - 1, -(2**31), 104_857_601, size * 2))
    return (size & 0xFFFFFFFF).to_bytes(4, "big") + bytes(body)


def _change(rng: Random, body: bytearray, other: bytes) -> None:
    if not body:
        body += other[4:]
        return
    first = 0 if rng.random() < 0.05 else min(HEAD - 4, len(body) - 1)
    at = rng.randrange(first, len(body))
    chance = rng.random()
    if chance < 0.25:
        body[at] = rng.randrange(256)
    elif chance < 0.4:
        body[at] ^= 1 << rng.randrange(8)
    elif chance < 0.5:
        body[at] = (body[at] + rng.choice((-1, 1))) & 255
    elif chance < 0.65:
        extreme = rng.choice(EXTREMES)
        body[at : at + (len(extreme) if rng.random() < 0.7 else 0)] = extreme
    elif chance < 0.75:
        del body[at : at + rng.choice((1, 2, 4, 16, len(body)))]
    elif chance < 0.85:
        end = min(len(body), at + rng.choice((1, 4, 16, 64)))
        body[at:at] = body[at:end] * rng.choice((1, 1, 2, 50))
    elif chance < 0.92 and len(other) > HEAD:
        start = rng.randrange(4, len(other))
        body[at : at + rng.choice((0, 8, 1 << 20))] = other[start : start + rng.choice((8, 64, 1 << 20))]
    else:
        body[at:at] = rng.randbytes(rng.choice((1, 2, 4, 30)))
