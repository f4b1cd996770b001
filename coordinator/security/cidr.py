"""CIDR ranges as hosts of access control entries (KIP-1276), read as by Kafka's CidrUtils. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

IPV4, IPV6 = 32, 128
"""The bits of an address."""
_RANGE_4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})")
_NUMBER: Final = re.compile(r"[+-]?\d+")
_ZEROS: Final = re.compile(r"\b0+(?=[0-9a-fA-F])")
_JAVA_INT: Final = (1 << 31) - 1


class Range(NamedTuple):
    """The addresses of `bits` bits whose first `prefix` bits are those of `address`. The other bits of `address` are
    0.
    """

    bits: int
    prefix: int
    address: int


class BadRange(ValueError):
    """A text with a slash is no CIDR range. The error's text is Kafka's."""


def parse(text: str) -> Range:
    """The range of a host with a slash. Raises BadRange."""
    return _parse_6(text) if ":" in text else _parse_4(text)


def _parse_4(text: str) -> Range:
    found = _RANGE_4.fullmatch(text)
    if found is None:
        raise BadRange(f"Could not parse [{text}]")
    *parts, prefix = map(int, found.groups())
    for value, largest in (*((part, 255) for part in parts), (prefix, IPV4)):
        if value > largest:
            raise BadRange(f"Value [{value}] not in range [0,{largest}]")
    return _range(IPV4, prefix, int.from_bytes(parts))


def _parse_6(text: str) -> Range:
    address, _, number = text.partition("/")
    prefix = int(number) if _NUMBER.fullmatch(number) else _JAVA_INT + 1
    if not -_JAVA_INT <= prefix <= _JAVA_INT:
        raise BadRange(f"Could not parse [{text}] - invalid prefix length")
    if not 0 <= prefix <= IPV6:
        raise BadRange(f"Could not parse [{text}] - prefix length must be between 0 and {IPV6}")
    plain = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    try:
        parsed = ipaddress.IPv6Address(_ZEROS.sub("", plain.partition("%")[0]))
    except ValueError:
        raise BadRange(f"Could not parse [{address}]") from None
    if parsed.ipv4_mapped is not None:
        raise BadRange(f"Could not parse [{address}] - not an IPv6 address")
    return _range(IPV6, prefix, int(parsed))


def _range(bits: int, prefix: int, address: int) -> Range:
    rest = bits - prefix
    return Range(bits, prefix, address >> rest << rest)


class Ranges:
    """Ranges of addresses, each as often as it was added, and the search for the ranges that hold an address."""

    __slots__ = ("_counts", "_prefixes")

    def __init__(self) -> None:
        self._counts: dict[Range, int] = {}
        self._prefixes: dict[tuple[int, int], int] = {}
        """(bits, prefix) -> how many different ranges have this length."""

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, one: Range) -> None:
        """Add a range."""
        count = self._counts.get(one, 0)
        self._counts[one] = count + 1
        if not count:
            self._prefixes[one[:2]] = self._prefixes.get(one[:2], 0) + 1

    def remove(self, one: Range) -> None:
        """Remove a range once."""
        self._counts[one] -= 1
        if self._counts[one]:
            return
        del self._counts[one]
        self._prefixes[one[:2]] -= 1
        if not self._prefixes[one[:2]]:
            del self._prefixes[one[:2]]

    def of_host(self, host: str) -> list[Range]:
        """The ranges that hold this address: at most one of each length. Kafka's ranges never hold 0.0.0.0."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return []
        bits, number = address.max_prefixlen, int(address)
        if bits == IPV4 and not number:
            return []
        found = (_range(bits, prefix, number) for of, prefix in self._prefixes if of == bits)
        return [one for one in found if one in self._counts]


def range_of(host: str) -> Range | None:
    """The range that an entry's host means, or None. An entry may be older than the check of hosts."""
    if "/" not in host:
        return None
    try:
        return parse(host)
    except BadRange:
        return None
