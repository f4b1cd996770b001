"""Primitives of the generated decoders and encoders. Other modules should not need them.

Decoders check little while they run. A slice past the end leaves the position past the end, and the next fixed-size
read or the last line of the decoder notices it. Element counts are bounded by the remaining bytes before anything is
allocated. Errors are one of `REFUSALS`; the caller turns them into MalformedMessage with the field's path by reading
the bytes again, slowly (`malformed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NoReturn, cast

from muster.protocol.message import UnrepresentableField

Parts = list[bytes | memoryview]


class Refused(ValueError):
    """The bytes do not fit the layout; where and why is found out by `malformed`."""


REFUSALS = (Refused, IndexError, struct_error, UnicodeDecodeError)

MAX_STRING = 0x7FFF
"""Kafka's limit for any string, in bytes."""


class TooMany(Refused):
    """A request has more elements than its reader may make."""


MOST_ELEMENTS: Final = 250_000
"""So many elements (structs, texts, numbers, tagged fields) may be in all arrays of a request together: millions of
objects would keep everybody else waiting for seconds, and take gigabytes. Kafka has no limit but the size of a request;
nor has any cluster as many partitions.
"""
MOST_TAGS: Final = 127
"""So many tagged fields may be in one struct: Kafka's own have fewer than ten."""


def too_many() -> NoReturn:
    """Give up on a request with more elements than the reader may make."""
    raise TooMany


def refuse() -> NoReturn:
    """Give up on the bytes."""
    raise Refused


# ---- reading ---------------------------------------------------------------------------------------------------------


def uvarint(b: bytes, p: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes at p: (value modulo 2^32, position after it)."""
    n = shift = 0
    while True:
        x = b[p]
        p += 1
        n |= (x & 127) << shift
        if x < 128:
            return n & 0xFFFFFFFF, p
        shift += 7
        if shift > 28:
            refuse()


def long_string(b: bytes, p: int, end: int) -> tuple[str, int]:
    """Read a compact string whose length does not lie in 1..127 (other lengths are read in line)."""
    n, p = uvarint(b, p)
    if not 0 < n <= MAX_STRING + 1 or n - 1 > end - p:
        refuse()
    e = p + n - 1
    return b[p:e].decode(), e


def long_bytes(b: bytes, p: int, end: int) -> tuple[bytes, int]:
    """Read compact bytes whose length does not lie in 1..127."""
    n, p = uvarint(b, p)
    if n == 0 or n - 1 > end - p:
        refuse()
    e = p + n - 1
    return b[p:e], e


COPIED_BYTES: Final = 64 * 1024
"""Larger records of a request are not copied: 100 MB take a tenth of a second, and all other clients wait."""


def part(b: bytes, start: int, end: int) -> bytes:
    """b[start:end] for records: large ones are a view, which is bytes to all who look at records."""
    return b[start:end] if end - start <= COPIED_BYTES else cast(bytes, memoryview(b)[start:end])


def long_part(b: bytes, p: int, end: int) -> tuple[bytes, int]:
    """`long_bytes` for records; see `part`."""
    n, p = uvarint(b, p)
    if n == 0 or n - 1 > end - p:
        refuse()
    e = p + n - 1
    return part(b, p, e), e


Reader = Callable[[bytes, int, int], Any]


def skip_tags(b: bytes, p: int, end: int) -> int:
    """Skip the tagged fields whose count stands at p; the position after them."""
    n, p = uvarint(b, p)
    if n > MOST_TAGS or n * 2 > end - p:
        refuse()
    for _ in range(n):
        _, p = uvarint(b, p)
        size, p = uvarint(b, p)
        p += size
        if p > end:
            refuse()
    return p


def read_tags(b: bytes, p: int, end: int, known: Mapping[int, Reader]) -> tuple[dict[int, Any], int]:
    """Read the tagged fields in `known` (tag -> reader of exactly its bytes), skip the others."""
    n, p = uvarint(b, p)
    if n > MOST_TAGS or n * 2 > end - p:
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


MOST_STRUCTS: Final = 256
"""Structs of so many elements that are kept."""


@lru_cache(MOST_STRUCTS)
def get_many(code: str, n: int) -> Callable[..., tuple[Any, ...]]:
    """unpack_from for n elements of one struct code."""
    return Struct(f">{n}{code}").unpack_from


# ---- writing ---------------------------------------------------------------------------------------------------------


def long_uvarint(n: int) -> bytes:
    """An unsigned varint of any size, as bytes."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


MOST_PARTS: Final = 4_096
"""So many parts of an answer are kept before they are joined."""
LARGE_PART: Final = 4_096
"""Parts of at least this many bytes are passed on as they are; smaller ones are joined."""


def ended(whole: Parts, out: list[bytes]) -> bytes | Parts:
    """All of an answer: in one piece, or in those that were joined on the way, and the last one."""
    last = b"".join(out)
    if not whole:
        return last
    whole.append(last)
    return whole


def ended_parts(whole: Parts, out: Parts) -> Parts:
    """`ended` for a message with records."""
    if not whole:
        return out
    fold(whole, out)
    return whole


def fold(whole: Parts, out: Parts) -> None:
    """Put parts behind those that are done, small ones that lie side by side joined."""
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
    """An unsigned varint, as bytes."""
    return UVARINTS[n] if n < 1024 else long_uvarint(n)


def uvs(n: int) -> bytes:
    """The compact length of a string that stands for n - 1 bytes."""
    if n > MAX_STRING + 1:
        raise UnrepresentableField("a string", f"of {n - 1} bytes is longer than {MAX_STRING}")
    return UVARINTS[n] if n < 1024 else long_uvarint(n)


def write_tags(tags: Sequence[tuple[int, bytes]]) -> bytes:
    """The tagged fields of a struct, given as (tag, bytes) by ascending tag."""
    return b"".join([uv(len(tags)), *[x for tag, value in tags for x in (uv(tag), uv(len(value)), value)]])


@lru_cache(MOST_STRUCTS)
def put_many(code: str, n: int) -> Callable[..., bytes]:
    """pack for n elements of one struct code."""
    return Struct(f">{n}{code}").pack


def not_in_version(path: str) -> NoReturn:
    """A field that has a value is neither in the version asked for nor ignorable."""
    raise UnrepresentableField(path)


def is_none(name: str) -> NoReturn:
    """An attribute is None that cannot be null in the version asked for."""
    raise UnrepresentableField(name, "is None, which cannot be said")
