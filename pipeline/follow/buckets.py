"""The bucket of a group: Spark's hash of its name (XXH64), which this process computes too."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from muster.pipeline.follow.manifest import BUCKETS
from muster.pipeline.frames import Column, F

_SEED: Final = 42
_MASK: Final = (1 << 64) - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_WORD: Final = Struct("<Q")
_HALF: Final = Struct("<I")
_BLOCK: Final = Struct("<4Q")


def bucket_column(group: Column) -> Column:
    """The bucket of a group, as a column of Spark."""
    return F.pmod(F.xxhash64(F.coalesce(group, F.lit(""))), F.lit(BUCKETS)).cast("int")


@lru_cache(10_000)
def bucket_of(group: str | None) -> int:
    """The same bucket."""
    return xxhash64((group or "").encode()) % BUCKETS


def xxhash64(data: bytes) -> int:
    """XXH64 with Spark's seed, without a sign."""
    at, end = 0, len(data)
    if end >= _BLOCK.size:
        lanes = [_SEED + _P1 + _P2, _SEED + _P2, _SEED, _SEED - _P1]
        while at + _BLOCK.size <= end:
            lanes = [_round(lane, word) for lane, word in zip(lanes, _BLOCK.unpack_from(data, at), strict=True)]
            at += _BLOCK.size
        value = sum(_left(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        value = _SEED + _P5
    value = (value + end) & _MASK
    while at + _WORD.size <= end:
        value = (_left(value ^ _round(0, _WORD.unpack_from(data, at)[0]), 27) * _P1 + _P4) & _MASK
        at += _WORD.size
    if at + _HALF.size <= end:
        value = (_left(value ^ _HALF.unpack_from(data, at)[0] * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        at += _HALF.size
    for byte in data[at:]:
        value = _left(value ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return _left(lane + word * _P2 & _MASK, 31) * _P1 & _MASK


def _left(value: int, by: int) -> int:
    """Rotate 64 bits to the left."""
    value &= _MASK
    return (value << by | value >> 64 - by) & _MASK
