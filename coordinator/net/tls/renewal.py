"""The present TLS of one listener. It is read again when files or properties change, and kept if that fails."""

from __future__ import annotations

import os

import structlog

from muster.coordinator.net.tls.context import TlsContext, build
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.security.distinguished_name import alternative_names, subject

log = structlog.get_logger("muster.net")


class ListenerTls:
    """See the module. Raises TlsError."""

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
        """Check whether these may be the settings from now on. Raises TlsError with Kafka's reasons (SslFactory)."""
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
