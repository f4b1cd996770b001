"""The user data of the sticky strategies: a member's partitions and their generation (KIP-54, KIP-341).

Kafka: StickyAssignor's STICKY_ASSIGNOR_USER_DATA_V0 and _V1, CooperativeStickyAssignor's _V0.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error, pack, unpack_from
from typing import TypeAlias

from muster.assignors.assignor import NO_GENERATION, Partitions

Claims: TypeAlias = list[tuple[bytes, Sequence[int]]]
"""Names of topics in UTF-8, each with partitions."""

_count = Struct(">i")
_length = Struct(">h")


def encode_owned(owned: Partitions, generation: int) -> bytes:
    """Version 1: partitions by topic, then the generation."""
    parts = [_count.pack(len(owned))]
    for topic, partitions in owned.items():
        name = topic.encode()
        parts.append(_length.pack(len(name)) + name + pack(f">i{len(partitions)}i", len(partitions), *partitions))
    return b"".join([*parts, _count.pack(generation)])


def decode_owned(data: bytes | None) -> tuple[Claims, int | None]:
    """The former partitions of a member, and their generation. The generation is None in version 0.

    Bytes that cannot be decoded are those of a member that had nothing in generation -1.
    """
    if not data:
        return [], None
    try:
        claims, end = _read_claims(data)
    except (error, ValueError):
        return [], NO_GENERATION
    return claims, _count.unpack_from(data, end)[0] if len(data) - end >= 4 else None


def _read_claims(data: bytes) -> tuple[Claims, int]:
    claims: Claims = []
    left, at = _count.unpack_from(data)[0], 4
    if not 0 <= left <= len(data):
        raise ValueError(left)
    while left:
        start = at + 2
        at = start + _length.unpack_from(data, at)[0]
        if at < start:
            raise ValueError(at)
        count = _count.unpack_from(data, at)[0]
        if count == 1:
            partitions: Sequence[int] = _count.unpack_from(data, at + 4)
        else:
            if not 0 <= count <= len(data):
                raise ValueError(count)
            partitions = unpack_from(f">{count}i", data, at + 4)
        claims.append((data[start:at], partitions))
        at += 4 + 4 * count
        left -= 1
    return claims, at


def encode_generation(generation: int) -> bytes:
    """The user data of a member under cooperative-sticky."""
    return _count.pack(generation)


def decode_generation(data: bytes | None) -> int | None:
    """The generation that encode_generation wrote. None without user data, -1 when it cannot be decoded."""
    if data is None:
        return None
    return _count.unpack_from(data)[0] if len(data) >= 4 else NO_GENERATION
