"""The elements of DER that certificates and key stores need: type, length, value. Errors are ValueError and
IndexError.
"""

from __future__ import annotations

from typing import Final

OCTETS: Final = 0x04
OID: Final = 0x06
SEQUENCE: Final = 0x30


def parts(data: bytes, most: int | None = None) -> list[tuple[int, bytes]]:
    """The elements in sequence, each with its type; at most the first `most`."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data) and (most is None or len(found) < most):
        tag, value, at = element(data, at)
        found.append((tag, value))
    return found


def element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Type and value of the element at a place, and where the next element begins."""
    tag, length = data[at], data[at + 1]
    at += 2
    if length & 0x80:
        width = length & 0x7F
        length = int.from_bytes(data[at : at + width], "big")
        at += width
    if at + length > len(data):
        raise ValueError("an element is cut off")
    return tag, data[at : at + length], at + length


def expect(tag: int, wanted: int) -> None:
    """Check that an element has this type."""
    if tag != wanted:
        raise ValueError(f"an element of type {wanted:#x} is expected, not {tag:#x}")
