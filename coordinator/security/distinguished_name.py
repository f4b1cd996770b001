"""The subject of a certificate as Java writes it (X500Principal.getName, RFC 2253): the name of a client's principal.

This module also reads the elements of DER in certificates and key stores. Raises ValueError and IndexError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

OCTETS: Final = 0x04
OID: Final = 0x06
SEQUENCE: Final = 0x30


def parts(data: bytes, limit: int | None = None) -> list[tuple[int, bytes]]:
    """The elements in sequence, each with its type; at most the first `limit`."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data) and (limit is None or len(found) < limit):
        tag, value, at = element(data, at)
        found.append((tag, value))
    return found


def element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Type and value of the element at `at`, and where the next element begins."""
    tag, length = data[at], data[at + 1]
    at += 2
    if length & 0x80:
        width = length & 0x7F
        length = int.from_bytes(data[at : at + width], "big")
        at += width
    if at + length > len(data):
        raise ValueError("an element is cut off")
    return tag, data[at : at + length], at + length


def expect_tag(tag: int, wanted: int) -> None:
    """Check that an element has this type."""
    if tag != wanted:
        raise ValueError(f"an element of type {wanted:#x} is expected, not {tag:#x}")


KEYWORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "2.5.4.3": "CN",
        "2.5.4.6": "C",
        "2.5.4.7": "L",
        "2.5.4.8": "ST",
        "2.5.4.9": "STREET",
        "2.5.4.10": "O",
        "2.5.4.11": "OU",
        "0.9.2342.19200300.100.1.1": "UID",
        "0.9.2342.19200300.100.1.25": "DC",
    }
)
"""The keywords of RFC 2253. Any other attribute is written with its number, and its value in hexadecimal digits."""
_ESCAPED: Final = ',=+<>#;"\\'
_BLANKS: Final = " \r"
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: the types that are written as text."""


class BadCertificate(ValueError):
    """The bytes are not a certificate in DER."""


def subject(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises BadCertificate."""
    try:
        return name(_fields(certificate)[4][1])
    except (IndexError, ValueError) as error:
        raise BadCertificate(f"no certificate: {error}") from error


def alternative_names(certificate: bytes) -> frozenset[tuple[int, bytes]]:
    """The subjectAltNames of a certificate in DER: type and bytes of each. Raises BadCertificate."""
    try:
        for tag, extensions in _fields(certificate)[6:]:
            if tag == _EXTENSIONS:
                for _, extension in parts(parts(extensions)[0][1]):
                    (_, oid), *_, (_, value) = parts(extension)
                    if oid == _ALTERNATIVE_NAMES:
                        return frozenset(parts(parts(value)[0][1]))
    except (IndexError, ValueError) as error:
        raise BadCertificate(f"no certificate: {error}") from error
    return frozenset()


def _fields(certificate: bytes) -> list[tuple[int, bytes]]:
    """Serial number, algorithm, issuer, validity, subject, key, and further fields."""
    ((tag, outer),) = parts(certificate, 1)
    expect_tag(tag, SEQUENCE)
    ((tag, to_be_signed),) = parts(outer, 1)
    expect_tag(tag, SEQUENCE)
    fields = parts(to_be_signed)
    return fields[1:] if fields[0][0] == _VERSION else fields


def name(rdn_sequence: bytes) -> str:
    """The text of a Name, from the content of its SEQUENCE in DER. Raises ValueError or IndexError."""
    names = ["+".join(_attribute(value) for _, value in parts(attributes)) for _, attributes in parts(rdn_sequence)]
    return ",".join(reversed(names))


def _attribute(encoded: bytes) -> str:
    (tag, oid), (kind, value) = parts(encoded, 2)
    expect_tag(tag, OID)
    number = _dotted(oid)
    keyword = KEYWORDS.get(number)
    if keyword is None or kind not in _TEXTS:
        return f"{keyword or number}=#{_whole(encoded).hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """Escape special characters, and blanks at both ends, with a backslash (RFC 2253)."""
    chars = "".join("\\" + one if one in _ESCAPED else "\\00" if one == "\0" else one for one in text)
    start = len(chars) - len(chars.lstrip(_BLANKS))
    end = max(len(chars.rstrip(_BLANKS)), start)
    return "".join("\\" + one for one in chars[:start]) + chars[start:end] + "".join("\\" + one for one in chars[end:])


def _whole(attribute: bytes) -> bytes:
    at = 0
    _, _, at = element(attribute, at)
    return attribute[at:]


def _dotted(oid: bytes) -> str:
    numbers = list(_numbers(oid))
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _numbers(oid: bytes) -> Iterator[int]:
    number = 0
    for one in oid:
        number = number << 7 | one & 0x7F
        if not one & 0x80:
            yield number
            number = 0
