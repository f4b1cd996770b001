"""The `ssl` context of a listener, made from its settings: versions, cipher suites, keys, and the handshake's object.

Java uses the standard's names of suites (TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384), OpenSSL has its own names
(ECDHE-RSA-AES256-GCM-SHA384).
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import structlog

from muster.coordinator.net.tls import stores
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.security.distinguished_name import alternative_names, subject
from muster.coordinator.security.ssl_principal import InvalidRules, SslPrincipalMapper

log = structlog.get_logger("muster.net")

TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 that OpenSSL offers. Java has the same names for these suites."""
_SUITE_NAME: Final = re.compile(
    r"TLS_(ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|DHE_DSS|RSA)_WITH_"
    r"(?:(AES)_(128|256)_(GCM|CBC|CCM_8|CCM)(?:_(SHA|SHA256|SHA384))?|(CHACHA20_POLY1305)_SHA256)",
    re.ASCII,
)
_EXCHANGES: Final[Mapping[str, str]] = MappingProxyType({"RSA": ""})


def openssl_name(name: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2, or None if OpenSSL does not have it."""
    found = _SUITE_NAME.fullmatch(name)
    if found is None:
        return None
    exchange, aes, bits, mode, digest, chacha = found.groups()
    words = [_EXCHANGES.get(exchange, exchange.replace("_", "-"))]
    if chacha:
        words.append("CHACHA20-POLY1305")
    elif mode in ("CCM", "CCM_8"):
        words += [f"{aes}{bits}", mode.replace("_", "")]
        if digest:
            return None
    else:
        words += [f"{aes}{bits}", *(["GCM"] if mode == "GCM" else []), digest or ""]
        if not digest or (mode == "GCM" and digest == "SHA"):
            return None
    return "-".join(filter(None, words))


class HandshakeInProgress(Protocol):
    """The handshake that a `ListenerSSLObject` makes."""

    @property
    def socket(self) -> socket.socket:
        """The plain socket."""

    @property
    def received(self) -> bytes:
        """The bytes that were read from the socket before `ssl` had the transport."""

    def may_continue(self) -> bool:
        """Whether the next step may be done now. If not, `ssl` is called again when the step may be done."""


HANDSHAKE_OF_TASK: Final[ContextVar[HandshakeInProgress | None]] = ContextVar("a handshake", default=None)
"""The handshake of a task, and of the tasks that it starts."""


class ListenerSSLObject(ssl.SSLObject):
    """Sends clients the reason of a failed handshake, as Java does. asyncio only closes the connection."""

    _incoming: ssl.MemoryBIO
    _answers: ssl.MemoryBIO
    _handshake: HandshakeInProgress | None

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **how: Any) -> ListenerSSLObject:
        made: ListenerSSLObject = super()._create(incoming, outgoing, **how)  # type: ignore[misc]  # SSLContext calls it
        made._incoming, made._answers, made._handshake = incoming, outgoing, HANDSHAKE_OF_TASK.get()
        if made._handshake is not None and made._handshake.received:
            incoming.write(made._handshake.received)
        return made

    def do_handshake(self) -> None:
        """Do the next step if it may be done. When the handshake fails, send the alert."""
        handshake = self._handshake
        if handshake is not None and self._incoming.pending and not handshake.may_continue():
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if handshake is not None:
                with contextlib.suppress(OSError):  # the client has disconnected, or does not read
                    handshake.socket.send(self._answers.read())
            raise
        self._handshake = None


VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""The supported versions. Java has disabled the older versions too."""
OLD: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_ANY: Final = ("TLS", "SSL", "Default")
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsContext(NamedTuple):
    """The TLS for connections of a listener. `certificate`: the server's, in DER. `notes`: sentences for the log."""

    context: ssl.SSLContext
    certificate: bytes
    mapper: SslPrincipalMapper
    has_truststore: bool
    notes: tuple[str, ...] = ()


def build(settings: TlsSettings) -> TlsContext:
    """Read keys and certificates. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = ListenerSSLObject
    # As on Kafka, a client cannot renegotiate. As in Java, a chain may end at any certificate of the trust store.
    # That certificate need not be a root.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    notes = [*_set_versions(context, settings), *_set_ciphers(context, settings)]
    pair = stores.key_pair(settings)
    _load_key(context, pair)
    found = stores.trusted(settings)
    context.verify_mode = _VERIFY[settings.ssl_client_auth]
    if found is not None:
        _trust(context, found)
    elif context.verify_mode != ssl.CERT_NONE:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        notes.append("without ssl.truststore, clients with a certificate of any authority of the system are trusted")
    try:
        mapper = SslPrincipalMapper(settings.ssl_principal_mapping_rules)
    except InvalidRules as error:
        raise TlsError(f"ssl.principal.mapping.rules: {error}") from error
    return TlsContext(context, pair.chain[0], mapper, found is not None, tuple(notes))


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a client: the certificates that it trusts, and its own key if it has one. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found = stores.trusted(settings)
    if found is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, found)
    if settings.ssl_keystore_location is not None or settings.ssl_keystore_key is not None:
        _load_key(context, stores.key_pair(settings))
    return context


def _trust(context: ssl.SSLContext, certificates: Sequence[bytes]) -> None:
    try:
        context.load_verify_locations(cadata=b"".join(certificates))
    except ssl.SSLError as error:
        raise TlsError(f"the certificates of ssl.truststore cannot be used: {error.reason or error}") from error


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> Iterator[str]:
    wanted = settings.ssl_enabled_protocols or tuple(VERSIONS)
    unknown = [name for name in wanted if name not in VERSIONS and name not in OLD]
    if unknown:
        raise TlsError(f"ssl.enabled.protocols: '{unknown[0]}' is not known; expected {' or '.join(VERSIONS)}")
    protocol = settings.ssl_protocol
    if protocol not in (*VERSIONS, *OLD, *_ANY):
        raise TlsError(f"ssl.protocol: '{protocol}' is not known; expected one of {', '.join((*VERSIONS, _ANY[0]))}")
    versions = [VERSIONS[name] for name in wanted if name in VERSIONS]
    if not versions:
        raise TlsError(f"ssl.enabled.protocols={','.join(wanted)} names only versions that are not safe; add TLSv1.2")
    old = [name for name in wanted if name in OLD]
    if old:
        yield f"ssl.enabled.protocols: {', '.join(old)} is not supported, as in Java"
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _set_ciphers(context: ssl.SSLContext, settings: TlsSettings) -> Iterator[str]:
    wanted = settings.ssl_cipher_suites
    if not wanted:
        return
    wrong = [name for name in wanted if not re.fullmatch(r"(TLS|SSL)_[A-Z0-9a-z_]+", name)]
    if wrong:
        raise TlsError(f"ssl.cipher.suites: '{wrong[0]}' is no suite; expected names as {TLS_1_3[0]}")
    newest = [name for name in wanted if name in TLS_1_3]
    older = {name: openssl_name(name) for name in wanted if name not in TLS_1_3}
    usable = []
    for name in filter(None, older.values()):
        with contextlib.suppress(ssl.SSLError):
            context.set_ciphers(name)
            usable.append(name)
    missing = [name for name, ours in older.items() if ours not in usable]
    if missing:
        yield f"ssl.cipher.suites: {', '.join(missing)} is not available with {ssl.OPENSSL_VERSION}"
    lowest, highest = context.minimum_version, context.maximum_version
    if not newest:
        highest = ssl.TLSVersion.TLSv1_2
    if not usable:
        lowest = ssl.TLSVersion.TLSv1_3
    if lowest > highest or not (newest or usable):
        raise TlsError(f"ssl.cipher.suites={','.join(wanted)} has no suite for the versions of ssl.enabled.protocols")
    context.minimum_version, context.maximum_version = lowest, highest
    if usable:
        context.set_ciphers(":".join(usable))
    if newest and set(newest) != set(TLS_1_3):
        set_suites = getattr(context, "set_ciphersuites", None)  # Python 3.15 has this function
        if set_suites is not None:
            set_suites(":".join(newest))
        elif highest == ssl.TLSVersion.TLSv1_3:
            yield f"ssl.cipher.suites: with TLSv1.3 this Python offers all of {', '.join(TLS_1_3)}"


def _load_key(context: ssl.SSLContext, pair: stores.KeyPair) -> None:
    """Load the key from an anonymous file, if possible not on a disk: `ssl` reads keys from files only."""
    text = pair.key + "".join(ssl.DER_cert_to_PEM_cert(one) for one in pair.chain)
    # the function never asks for a password on the terminal, as OpenSSL would
    password = pair.password or ""
    try:
        with _file(text) as path:
            context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason == "KEY_VALUES_MISMATCH":
            raise TlsError("the private key of ssl.keystore is not that of its first certificate") from error
        if pair.password is not None:
            raise TlsError("the private key of ssl.keystore cannot be read: is ssl.key.password right?") from error
        why = reason.replace("_", " ").lower() or "it is no key"
        raise TlsError(f"the key and certificates of ssl.keystore cannot be used: {why}") from error
    except ValueError as error:
        raise TlsError("ssl.key.password is too long") from error


@contextlib.contextmanager
def _file(text: str) -> Iterator[str]:
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # only the owner may read the file
            file.write(text)
            file.flush()
            yield file.name


class ListenerTls:
    """The present TLS of one listener. Changed files and properties are read again; if that fails, nothing changes."""

    def __init__(self, listener: str, settings: TlsSettings) -> None:
        self._listener = listener
        self._settings = settings
        self._seen = _stamps(settings)
        self.now = build(settings)
        for note in self.now.notes:
            log.warning(note, listener=listener)

    def renew(self, settings: TlsSettings | None = None) -> None:
        """Read everything again if a file or a setting has changed. Open connections keep their TLS."""
        settings = settings or self._settings
        stamps = _stamps(settings)
        if settings == self._settings and stamps == self._seen:
            return
        self._seen = stamps
        try:
            self.now = build(settings)
        except TlsError as error:
            log.error("the new certificates cannot be used, the old ones are kept", listener=self._listener,
                      why=str(error))  # fmt: skip
            return
        self._settings = settings
        log.info("certificates were read anew", listener=self._listener, subject=subject(self.now.certificate))

    def check(self, settings: TlsSettings) -> None:
        """Check whether the listener may use these settings. Raises TlsError with Kafka's reasons (SslFactory)."""
        if settings == self._settings and _stamps(settings) == self._seen:
            return
        new, old = build(settings), self.now
        if new.has_truststore and not old.has_truststore:
            raise TlsError("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
        _check_names(new, old, settings)


def _check_names(new: TlsContext, old: TlsContext, settings: TlsSettings) -> None:
    before, after = subject(old.certificate), subject(new.certificate)
    if before != after and not settings.ssl_allow_dn_changes:
        raise TlsError(f"Keystore DistinguishedName does not match: existing={before}, new={after}")
    lost = alternative_names(old.certificate) - alternative_names(new.certificate)
    if lost and not settings.ssl_allow_san_changes:
        raise TlsError("Keystore SubjectAltNames do not match: the new certificate lacks some of the existing one's")


def _stamps(settings: TlsSettings) -> tuple[object, ...]:
    """A value that changes when one of the files changes. A link to another place counts as another file."""
    stamps: list[object] = []
    for path in settings.files:
        try:
            found = os.stat(path)
        except OSError as error:
            stamps.append(error.errno)
        else:
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev))
    return tuple(stamps)
