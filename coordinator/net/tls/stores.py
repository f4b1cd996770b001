"""Key stores and trust stores, as Kafka's DefaultSslEngineFactory reads them: the content decides the type."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.security.distinguished_name import OCTETS, SEQUENCE, expect_tag, parts

JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_PRIVATE_KEY: Final = 1
_TRUSTED: Final = 2
_WHITENER: Final = b"Mighty Aphrodite"
_SHA1_BYTES: Final = 20


class BadStore(ValueError):
    """The bytes are not a key store in this format, or the password is wrong. The text has no secret in it."""


class JavaKeyStore(NamedTuple):
    """A Java key store. `keys`: (protected key, chain in DER), in order. `trusted`: certificates in DER."""

    keys: tuple[tuple[bytes, tuple[bytes, ...]], ...]
    trusted: tuple[bytes, ...]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(JKS_MAGIC)

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


def load_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a store. Without a password the integrity of the store is not checked, as in Java. Raises BadStore."""
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


def jks_private_key(protected: bytes, password: str) -> bytes:
    """A key of a store, in PKCS #8. Raises BadStore."""
    try:
        ((tag, info),) = parts(protected, 1)
        expect_tag(tag, SEQUENCE)
        _, (tag, content) = parts(info, 2)
        expect_tag(tag, OCTETS)
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


TYPES: Final = ("PEM", "PKCS12", "JKS")
MAX_BYTES: Final = 16 << 20
"""The largest file, in bytes."""
_JCEKS: Final = bytes.fromhex("cececece")
_ENTRY: Final = re.compile(
    r"-+BEGIN\s*(?P<label>[^-\n]*?(?P<kind>CERTIFICATE|PRIVATE\s+KEY))[^-]*-+\s+"
    r"(?P<headers>(?:[^\r\n:]*:[^\r\n]*[\r\n]+)*)\s*(?P<content>[a-zA-Z0-9/+=\s]*)"
    r"-+END\s*[^-\n]*-+"
)


class KeyPair(NamedTuple):
    """A key and its certificates. `password`: the password of the key in PEM; None: the key is not protected."""

    key: str
    chain: tuple[bytes, ...]
    password: str | None = None


def key_pair(settings: TlsSettings) -> KeyPair:
    """The server's own key and certificates. Raises TlsError."""
    one = settings
    _check_type("ssl.keystore.type", one.ssl_keystore_type)
    is_pem = one.ssl_keystore_type == "PEM"
    if one.ssl_keystore_key is not None or one.ssl_keystore_certificate_chain is not None:
        _check_inline_key(one)
        return _pem_pair(
            one.ssl_keystore_key or "", one.ssl_keystore_certificate_chain or "", one, "ssl.keystore.key",
            "ssl.keystore.certificate.chain",
        )  # fmt: skip
    location = one.ssl_keystore_location
    if location is None:
        raise TlsError(
            "ssl.keystore.location is missing: a listener with TLS needs a key and a certificate "
            "(or ssl.keystore.key and ssl.keystore.certificate.chain, with ssl.keystore.type=PEM)"
        )
    where = f"ssl.keystore.location {location}"
    if is_pem:
        if one.ssl_keystore_password is not None:
            raise TlsError("ssl.keystore.password is not for PEM, only ssl.key.password is; leave it out")
        text = _text(location, where)
        return _pem_pair(text, text, one, where, where)
    if one.ssl_keystore_password is None:
        raise TlsError(f"ssl.keystore.password is missing; {where} needs it")
    data = _file_bytes(location, where)
    if data.startswith(JKS_MAGIC):
        return _java_pair(data, one.ssl_keystore_password, one.ssl_key_password or one.ssl_keystore_password, where)
    store = _pkcs12(data, one.ssl_keystore_password, where, "ssl.keystore.password")
    if store.key is None or store.cert is None:
        raise TlsError(f"{where} has no private key with its certificate")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    others = [other.certificate.public_bytes(Encoding.DER) for other in store.additional_certs]
    return KeyPair(key, (store.cert.certificate.public_bytes(Encoding.DER), *others))


def trusted(settings: TlsSettings) -> tuple[bytes, ...] | None:
    """The trusted certificates, in DER; a peer's chain must lead to one. None: the system's. Raises TlsError."""
    one = settings
    _check_type("ssl.truststore.type", one.ssl_truststore_type)
    is_pem = one.ssl_truststore_type == "PEM"
    location = one.ssl_truststore_location
    if one.ssl_truststore_certificates is not None:
        name = "ssl.truststore.certificates"
        if not is_pem:
            raise TlsError(f"{name} is for ssl.truststore.type=PEM only, which is {one.ssl_truststore_type}")
        if location is not None:
            raise TlsError(f"{name} and ssl.truststore.location are both given; leave one out")
        if one.ssl_truststore_password is not None:
            raise TlsError("ssl.truststore.password is not for PEM; leave it out")
        return _certificates(one.ssl_truststore_certificates, name)
    if location is None:
        if one.ssl_truststore_password is not None:
            raise TlsError("ssl.truststore.password is given without ssl.truststore.location; leave it out")
        return None
    where = f"ssl.truststore.location {location}"
    if is_pem:
        if one.ssl_truststore_password is not None:
            raise TlsError("ssl.truststore.password is not for PEM; leave it out")
        return _certificates(_text(location, where), where)
    data = _file_bytes(location, where)
    found = _java_trusted(data, one.ssl_truststore_password, where)
    if not found:
        raise TlsError(f"{where} has no certificate")
    return found


def _check_type(name: str, kind: str) -> None:
    if kind not in TYPES:
        raise TlsError(f"{name}={kind} is not known; expected one of {', '.join(TYPES)}")


def _check_inline_key(one: TlsSettings) -> None:
    if one.ssl_keystore_key is None:
        raise TlsError("ssl.keystore.certificate.chain is given without ssl.keystore.key; give both")
    if one.ssl_keystore_type != "PEM":
        raise TlsError(f"ssl.keystore.key is for ssl.keystore.type=PEM only, which is {one.ssl_keystore_type}")
    if one.ssl_keystore_certificate_chain is None:
        raise TlsError("ssl.keystore.key is given without ssl.keystore.certificate.chain; give both")
    if one.ssl_keystore_location is not None:
        raise TlsError("ssl.keystore.key and ssl.keystore.location are both given; leave one out")
    if one.ssl_keystore_password is not None:
        raise TlsError("ssl.keystore.password is not for PEM, only ssl.key.password is; leave it out")


def _file_bytes(location: str, where: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise TlsError(f"{where} cannot be read: {why or error}") from error
    if len(data) > MAX_BYTES:
        raise TlsError(f"{where} has more than {MAX_BYTES} bytes: that is no key store")
    return data


def _text(location: str, where: str) -> str:
    return _file_bytes(location, where).decode("utf-8", "replace")


def _pem_pair(key_text: str, chain_text: str, one: TlsSettings, key_name: str, chain_name: str) -> KeyPair:
    keys = [entry for entry in _ENTRY.finditer(key_text) if entry["kind"] != "CERTIFICATE"]
    if len(keys) != 1:
        raise TlsError(f"{key_name} has {len(keys) or 'no'} private key{'s' if keys else ''} in PEM; expected one")
    label = " ".join(keys[0]["label"].split())
    if ("ENCRYPTED" in label or "ENCRYPTED" in keys[0]["headers"]) and one.ssl_key_password is None:
        raise TlsError(f"ssl.key.password is missing; the key of {key_name} is encrypted")
    headers = keys[0]["headers"].strip()
    content = "\n".join(_lines(keys[0]["content"]))
    key = f"-----BEGIN {label}-----\n{headers + chr(10) * 2 if headers else ''}{content}\n-----END {label}-----\n"
    return KeyPair(key, _certificates(chain_text, chain_name), one.ssl_key_password)


def _lines(content: str) -> list[str]:
    packed = "".join(content.split())
    return [packed[at : at + 64] for at in range(0, len(packed), 64)]


def _certificates(text: str, name: str) -> tuple[bytes, ...]:
    found = [entry["content"] for entry in _ENTRY.finditer(text) if entry["kind"] == "CERTIFICATE"]
    if not found:
        raise TlsError(f"{name} has no certificate in PEM")
    try:
        return tuple(base64.b64decode("".join(content.split()), validate=True) for content in found)
    except ValueError as error:
        raise TlsError(f"{name} has a certificate that is not in base64") from error


def _java_pair(data: bytes, password: str, key_password: str, where: str) -> KeyPair:
    try:
        store = load_jks(data, password)
        if not store.keys:
            raise TlsError(f"{where} has no private key with its certificate")
        protected, chain = store.keys[0]
        key = jks_private_key(protected, key_password)
    except BadStore as error:
        raise TlsError(f"{where} cannot be used: {error}") from error
    content = "\n".join(_lines(base64.b64encode(key).decode()))
    return KeyPair(f"-----BEGIN PRIVATE KEY-----\n{content}\n-----END PRIVATE KEY-----\n", chain)


def _java_trusted(data: bytes, password: str | None, where: str) -> tuple[bytes, ...]:
    """Java trusts the trusted certificates of a store, and the first certificate of each key's chain."""
    if data.startswith(JKS_MAGIC):
        try:
            store = load_jks(data, password)
        except BadStore as error:
            raise TlsError(f"{where} cannot be used: {error}") from error
        return (*store.trusted, *(chain[0] for _, chain in store.keys if chain))
    from cryptography.hazmat.primitives.serialization import Encoding

    store = _pkcs12(data, password, where, "ssl.truststore.password")
    others = [other.certificate for other in store.additional_certs]
    if store.cert is not None:
        # trusted are the first certificate of a key's own chain, and all certificates outside of the chain
        chain = {store.cert.certificate.issuer}
        for _ in others:
            chain |= {other.issuer for other in others if other.subject in chain}
        others = [store.cert.certificate, *(other for other in others if other.subject not in chain)]
    return tuple(other.public_bytes(Encoding.DER) for other in others)


def _pkcs12(data: bytes, password: str | None, where: str, name: str) -> Any:
    if data.startswith(_JCEKS):
        raise TlsError(f"{where} is of the type JCEKS; expected PKCS12, JKS or PEM")
    if b"-----BEGIN" in data[:10_000]:
        raise TlsError(f"{where} is in PEM; say so with {name.rpartition('.')[0]}.type=PEM and without {name}")
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise TlsError(f"{where} is a PKCS12 file: to read it install muster-kafka[secure], or use PEM") from error
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except UnsupportedAlgorithm as error:
        raise TlsError(f"{where} is encrypted in a way that is not known here: {error}") from error
    except ValueError as error:
        raise TlsError(f"{where} cannot be used: it is no key store, or {name} is wrong") from error
