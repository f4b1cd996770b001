"""Reads Java's key store format JKS: private keys and certificates. (keytool writes PKCS12 by default.)

The protection of keys is Java's own, with SHA-1. No maintained library reads it: the one for Python (pyjks) has had no
release since 2020.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

from muster.coordinator.security.der import OCTETS, SEQUENCE, expect, parts

MAGIC: Final = bytes.fromhex("feedfeed")
_PRIVATE_KEY: Final = 1
_TRUSTED: Final = 2
_WHITENER: Final = b"Mighty Aphrodite"
_SHA1_BYTES: Final = 20


class BadStore(ValueError):
    """The bytes are not a key store in this format, or the password is wrong. The text has no secret in it."""


class JavaKeyStore(NamedTuple):
    """The content of a store. `keys`: (protected key, chain in DER), in the order of the store. `trusted`: certificates
    in DER.
    """

    keys: tuple[tuple[bytes, tuple[bytes, ...]], ...]
    trusted: tuple[bytes, ...]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(MAGIC)

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise BadStore("it is cut off")
        taken, self._at = self._data[self._at : end], end
        return taken

    def text(self) -> bytes:
        return self.take(int.from_bytes(self.take(2), "big"))

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()
        return self.take(self.number())


def load(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a store. Without a password its integrity is not checked, as in Java. Raises BadStore."""
    if password is not None:
        digest = hashlib.sha1(_bytes(password) + _WHITENER + data[:-_SHA1_BYTES], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, data[-_SHA1_BYTES:]):
            raise BadStore("it was changed, or the password is wrong")
    reader = _Reader(data[:-_SHA1_BYTES])
    version = reader.number()
    if version not in (1, 2):
        raise BadStore(f"it has version {version}; 1 and 2 are known")
    keys: list[tuple[bytes, tuple[bytes, ...]]] = []
    trusted: list[bytes] = []
    for _ in range(reader.number()):
        kind = reader.number()
        reader.text()
        reader.take(8)
        if kind == _PRIVATE_KEY:
            key = reader.take(reader.number())
            keys.append((key, tuple(reader.certificate(version) for _ in range(reader.number()))))
        elif kind == _TRUSTED:
            trusted.append(reader.certificate(version))
        else:
            raise BadStore(f"it has an entry of type {kind}; 1 and 2 are known")
    return JavaKeyStore(tuple(keys), tuple(trusted))


def private_key(protected: bytes, password: str) -> bytes:
    """A key of a store, in PKCS #8. Raises BadStore."""
    try:
        ((tag, info),) = parts(protected, 1)
        expect(tag, SEQUENCE)
        _, (tag, content) = parts(info, 2)
        expect(tag, OCTETS)
    except (IndexError, ValueError) as error:
        raise BadStore(f"its key cannot be read: {error}") from error
    salt, hidden, check = content[:_SHA1_BYTES], content[_SHA1_BYTES:-_SHA1_BYTES], content[-_SHA1_BYTES:]
    secret, stream = _bytes(password), b""
    block = salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise BadStore("the password of its key is wrong")
    return key


def _bytes(password: str) -> bytes:
    return password.encode("utf-16-be")
