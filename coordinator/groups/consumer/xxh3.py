"""XXH3 with 64 bits and without a seed: the hash that Kafka 4 keeps of the topics of a group, which stands in its log.

Written from the specification of the algorithm (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
"""

from __future__ import annotations

from struct import Struct, unpack, unpack_from
from typing import Final

_U64: Final = (1 << 64) - 1
_P32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_P64: Final = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_LANES: Final = Struct("<8Q")
_STRIPE: Final = 64
_STRIPES_OF_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8


def xxh3_64(data: bytes) -> int:
    """The hash, as an unsigned number."""
    length = len(data)
    if length <= 16:
        return _short(data, length)
    if length <= 128:
        return _middle(data, length)
    if length <= 240:
        return _longer(data, length)
    return _long(data, length)


def _u64(data: bytes, at: int) -> int:
    value: int = unpack_from("<Q", data, at)[0]
    return value


def _u32(data: bytes, at: int) -> int:
    value: int = unpack_from("<I", data, at)[0]
    return value


def _fold(one: int, other: int) -> int:
    product = one * other
    return (product ^ product >> 64) & _U64


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * 0x165667919E3779F9 & _U64
    return value ^ value >> 32


def _old_avalanche(value: int) -> int:
    value ^= value >> 33
    value = value * _P64[1] & _U64
    value ^= value >> 29
    value = value * _P64[2] & _U64
    return value ^ value >> 32


def _short(data: bytes, length: int) -> int:
    if length > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, length - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((length + swapped + high + _fold(low, high)) & _U64)
    if length >= 4:
        joined = _u32(data, length - 4) + (_u32(data, 0) << 32)
        value = joined ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= (value << 49 | value >> 15) & _U64 ^ (value << 24 | value >> 40) & _U64
        value = value * 0x9FB21C651E98DF25 & _U64
        value ^= (value >> 35) + length
        value = value * 0x9FB21C651E98DF25 & _U64
        return value ^ value >> 28
    if length:
        joined = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
        return _old_avalanche(joined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _old_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix(data: bytes, at: int, secret: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret), _u64(data, at + 8) ^ _u64(_SECRET, secret + 8))


def _middle(data: bytes, length: int) -> int:
    total = length * _P64[0]
    for pair in range((length - 1) // 32, -1, -1):
        total += _mix(data, 16 * pair, 32 * pair) + _mix(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total & _U64)


def _longer(data: bytes, length: int) -> int:
    total = length * _P64[0]
    for chunk in range(8):
        total += _mix(data, 16 * chunk, 16 * chunk)
    total = _avalanche(total & _U64)
    for chunk in range(8, length // 16):
        total += _mix(data, 16 * chunk, 16 * (chunk - 8) + 3)
    total += _mix(data, length - 16, 136 - 17)
    return _avalanche(total & _U64)


def _long(data: bytes, length: int) -> int:
    lanes = [_P32[2], _P64[0], _P64[1], _P64[2], _P64[3], _P32[1], _P64[4], _P32[0]]
    secrets = [_LANES.unpack_from(_SECRET, 8 * stripe) for stripe in range(_STRIPES_OF_BLOCK)]
    scramble = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    last = (length - 1) // _STRIPE
    for stripe in range(last):
        place = stripe % _STRIPES_OF_BLOCK
        lanes = _accumulate(lanes, _LANES.unpack_from(data, stripe * _STRIPE), secrets[place])
        if place == _STRIPES_OF_BLOCK - 1:
            lanes = [((lane ^ lane >> 47 ^ key) * _P32[0]) & _U64 for lane, key in zip(lanes, scramble, strict=True)]
    end = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE - 7)
    lanes = _accumulate(lanes, _LANES.unpack_from(data, length - _STRIPE), end)
    keys = unpack("<8Q", _SECRET[11 : 11 + _STRIPE])
    total = length * _P64[0]
    for pair in range(0, 8, 2):
        total += _fold(lanes[pair] ^ keys[pair], lanes[pair + 1] ^ keys[pair + 1])
    return _avalanche(total & _U64)


def _accumulate(lanes: list[int], values: tuple[int, ...], secret: tuple[int, ...]) -> list[int]:
    keys = [value ^ key for value, key in zip(values, secret, strict=True)]
    return [
        (lanes[lane] + values[lane ^ 1] + (keys[lane] & 0xFFFFFFFF) * (keys[lane] >> 32)) & _U64 for lane in range(8)
    ]
