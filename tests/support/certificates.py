"""Certificates for tests: an authority, and keys that it signs, in each form that a client or a server uses."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


def name(text: str) -> x509.Name:
    """The distinguished name `CN=…,O=…` as in RFC 4514."""
    return x509.Name.from_rfc4514_string(text)


class Pair(NamedTuple):
    """A key and its certificates; its own certificate is the first."""

    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...]

    def key_pem(self, password: str | None = None) -> str:
        """The key in PKCS #8."""
        how: KeySerializationEncryption = NoEncryption()
        if password is not None:
            how = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()

    @property
    def chain_pem(self) -> str:
        """The certificates."""
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in self.chain)

    def pem(self, path: Path, password: str | None = None) -> str:
        """Write the key and the certificates into a file that only its owner can read."""
        path.touch(mode=0o600)
        path.write_text(self.key_pem(password) + self.chain_pem)
        return str(path)

    def pkcs12(self, path: Path, password: str) -> str:
        """Write the key and the certificates into a key store."""
        how = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"me", self.key, self.chain[0], self.chain[1:], how))
        return str(path)


class Authority:
    """Signs certificates."""

    def __init__(self, subject: str = "CN=Authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(subject, subject, self._key, is_authority=True)

    @property
    def pem(self) -> str:
        """The certificate of the authority in PEM."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def signed(self, subject: str, *, host: str | None = None, end: datetime.datetime = END) -> Pair:
        """A key with a certificate for `subject`. `host` is a host name of a server, in addition to 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.certificate.subject.rfc4514_string()
        return Pair(key, (self._sign(subject, issuer, key, host=host, end=end), self.certificate))

    def _sign(
        self,
        subject: str,
        issuer: str,
        key: ec.EllipticCurvePrivateKey,
        *,
        is_authority: bool = False,
        host: str | None = None,
        end: datetime.datetime = END,
    ) -> x509.Certificate:
        # the serial number and the rest as a standard library of Python's newest version demands them
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(START)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(
                x509.KeyUsage(True, False, False, False, False, is_authority, is_authority, False, False), critical=True
            )
        )
        if host is not None:
            names = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())
