"""Functions that the generated decoders and encoders use. Other modules should not need them.

Decoders check little while they run. After a slice that ends behind the data, the position is behind the data, too. The
next fixed-size read, or the last line of the decoder, notices that. The number of elements is checked against the
remaining bytes before memory is allocated. A decoder raises one of `REFUSALS`. The caller then reads the bytes again,
slowly (`malformed`), and raises MalformedMessage with the field's path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NoReturn

from muster.protocol.message import UnrepresentableField

Parts = list[bytes | memoryview]


class Refused(ValueError):
    """The bytes do not fit the layout. `malformed` then finds the field and the reason."""


REFUSALS = (Refused, IndexError, struct_error, UnicodeDecodeError)

MAX_STRING = 0x7FFF
"""Kafka's limit for the length of any string, in bytes."""


class TooMany(Refused):
    """A request has more elements than its decoder may make."""


MAX_ELEMENTS: Final = 250_000
"""The most elements (structs, texts, numbers, tagged fields) that all arrays of a request may have together.

Millions of objects would delay all other clients for seconds, and take gigabytes. Kafka only limits the size of a
request. No cluster has as many partitions.
"""
MAX_TAGS: Final = 127
"""The most tagged fields in one struct. Kafka's own structs have fewer than ten."""


def too_many() -> NoReturn:
    """Refuse a request with more elements than its decoder may make."""
    raise TooMany


def refuse() -> NoReturn:
    """Refuse the bytes."""
    raise Refused


# ---- reading ---------------------------------------------------------------------------------------------------------


def uvarint(b: bytes, p: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes at p. Returns its value modulo 2^32, and the position after it."""
    n = shift = 0
    while True:
        x = b[p]
        p += 1
        if x < 128:
            return (n | x << shift) & 0xFFFFFFFF, p
        n |= (x & 127) << shift
        shift += 7
        if shift > 28:
            refuse()


def long_string(b: bytes, p: int, end: int) -> tuple[str, int]:
    """Read a compact string whose length is not in 1..127 (those lengths are read inline)."""
    n, p = uvarint(b, p)
    if not 0 < n <= MAX_STRING + 1 or n - 1 > end - p:
        refuse()
    e = p + n - 1
    return b[p:e].decode(), e


def long_bytes(b: bytes, p: int, end: int) -> tuple[bytes, int]:
    """Read compact bytes whose length is not in 1..127."""
    n, p = uvarint(b, p)
    if n == 0 or n - 1 > end - p:
        refuse()
    e = p + n - 1
    return b[p:e], e


COPIED_BYTES: Final = 64 * 1024
"""Records with more bytes are not copied. A copy of 100 MB would delay all other clients by a tenth of a second."""


def part(b: bytes, start: int, end: int) -> bytes | memoryview:
    """Return b[start:end] for records. Large records are a memoryview, which readers of records use like bytes."""
    return b[start:end] if end - start <= COPIED_BYTES else memoryview(b)[start:end]


def long_part(b: bytes, p: int, end: int) -> tuple[bytes | memoryview, int]:
    """Like `long_bytes`, for records: the bytes are returned as in `part`."""
    n, p = uvarint(b, p)
    if n == 0 or n - 1 > end - p:
        refuse()
    e = p + n - 1
    return part(b, p, e), e


Reader = Callable[[bytes, int, int], Any]


def skip_tags(b: bytes, p: int, end: int) -> int:
    """Skip the tagged fields whose count is at p; return the position after them."""
    n, p = uvarint(b, p)
    if n > MAX_TAGS or n * 2 > end - p:
        refuse()
    for _ in range(n):
        _, p = uvarint(b, p)
        size, p = uvarint(b, p)
        p += size
        if p > end:
            refuse()
    return p


def read_tags(b: bytes, p: int, end: int, known: Mapping[int, Reader]) -> tuple[dict[int, Any], int]:
    """Read the tagged fields in `known` (tag -> reader, which must read exactly the field's bytes); skip other tags."""
    n, p = uvarint(b, p)
    if n > MAX_TAGS or n * 2 > end - p:
        refuse()
    got: dict[int, Any] = {}
    for _ in range(n):
        tag, p = uvarint(b, p)
        size, p = uvarint(b, p)
        e = p + size
        if e > end:
            refuse()
        reader = known.get(tag)
        if reader is not None:
            got[tag] = reader(b, p, e)
        p = e
    return got, p


MAX_STRUCTS: Final = 256
"""The most struct objects, for runs of many elements, that are cached."""


@lru_cache(MAX_STRUCTS)
def get_many(code: str, n: int) -> Callable[..., tuple[Any, ...]]:
    """Return `unpack_from` of a struct with n elements of one code."""
    return Struct(f">{n}{code}").unpack_from


# ---- writing ---------------------------------------------------------------------------------------------------------


def long_uvarint(n: int) -> bytes:
    """Encode an unsigned varint of any size."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


MAX_PARTS: Final = 4_096
"""The most parts of an answer that are kept before small parts are joined."""
LARGE_PART: Final = 4_096
"""Parts of at least this many bytes are passed on unchanged. Smaller parts are joined."""


def ended(whole: Parts, out: list[bytes]) -> bytes | Parts:
    """Return a whole answer: as one piece, or as a list of the pieces joined before, and the last piece."""
    last = b"".join(out)
    if not whole:
        return last
    whole.append(last)
    return whole


def ended_parts(whole: Parts, out: Parts) -> Parts:
    """Like `ended`, for a message with records."""
    if not whole:
        return out
    fold(whole, out)
    return whole


def fold(whole: Parts, out: Parts) -> None:
    """Append `out` to the finished parts in `whole`. Small neighbouring parts are joined."""
    run: Parts = []
    for part in out:
        if len(part) < LARGE_PART:
            run.append(part)
            continue
        if run:
            whole.append(b"".join(run))
            run = []
        whole.append(part)
    if run:
        whole.append(b"".join(run))
    out.clear()


UVARINTS = [bytes((n,)) for n in range(128)] + [bytes((n & 127 | 128, n >> 7)) for n in range(128, 1024)]
"""The first 1,024 unsigned varints, as bytes."""


def uv(n: int) -> bytes:
    """Encode an unsigned varint."""
    return UVARINTS[n] if n < 1024 else long_uvarint(n)


def uvs(n: int) -> bytes:
    """Encode the compact length n of a string, which stands for n - 1 bytes."""
    if n > MAX_STRING + 1:
        raise UnrepresentableField("a string", f"of {n - 1} bytes is longer than {MAX_STRING}")
    return UVARINTS[n] if n < 1024 else long_uvarint(n)


def write_tags(tags: Sequence[tuple[int, bytes]]) -> bytes:
    """Encode the tagged fields of a struct, given as (tag, bytes) by ascending tag."""
    return b"".join([uv(len(tags)), *[x for tag, value in tags for x in (uv(tag), uv(len(value)), value)]])


@lru_cache(MAX_STRUCTS)
def put_many(code: str, n: int) -> Callable[..., bytes]:
    """Return `pack` of a struct with n elements of one code."""
    return Struct(f">{n}{code}").pack


def not_in_version(path: str) -> NoReturn:
    """Refuse the value of a field that is not in the requested version, and is not ignorable."""
    raise UnrepresentableField(path)


def is_none(name: str) -> NoReturn:
    """Refuse None for a field that cannot be null in the requested version."""
    raise UnrepresentableField(name, "is None, which cannot be encoded")
