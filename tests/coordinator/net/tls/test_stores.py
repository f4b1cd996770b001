"""Key stores and trust stores in each form that Kafka accepts; each mistake is reported in one sentence."""
# ruff: noqa: E501  # a table is read by its rows

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from muster.coordinator.net.tls import stores
from muster.coordinator.net.tls.context import build
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.net.tls.stores import key_pair, trusted
from muster.coordinator.security.distinguished_name import subject
from tests.support.certificates import Authority, Pair

STORES = Path(__file__).parents[3] / "golden" / "stores"
SERVER = (STORES / "server.der").read_bytes()
KEYTOOL = {
    "ssl_keystore_location": str(STORES / "key.jks"),
    "ssl_keystore_password": "store-secret",
    "ssl_key_password": "key-secret",
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("CN=Authority,O=Muster")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.signed("CN=server,O=Muster", host="localhost")


def settings(**changes: Any) -> TlsSettings:
    return TlsSettings(**changes)


def pem_file(server: Pair, path: Path, **changes: Any) -> TlsSettings:
    return settings(ssl_keystore_type="PEM", ssl_keystore_location=server.pem(path), **changes)


def test_pem_stores_are_read_from_a_file_and_inline(server: Pair, tmp_path: Path) -> None:
    in_file = key_pair(pem_file(server, tmp_path / "k.pem"))
    inline = settings(
        ssl_keystore_type="PEM", ssl_keystore_key=server.key_pem(), ssl_keystore_certificate_chain=server.chain_pem
    )
    assert key_pair(inline) == in_file
    assert [subject(one) for one in in_file.chain] == ["CN=server,O=Muster", "CN=Authority,O=Muster"]
    assert build(inline).certificate == in_file.chain[0]


def test_pem_on_one_line_or_with_leading_text_is_read(server: Pair) -> None:
    spaced = settings(
        ssl_keystore_type="PEM",
        ssl_keystore_key="Bag Attributes: <none>\n" + server.key_pem().replace("\n", " "),
        ssl_keystore_certificate_chain="subject=x\r\n" + server.chain_pem.replace("\n", " "),
    )
    assert len(key_pair(spaced).chain) == 2
    build(spaced)


def test_an_encrypted_key_needs_its_password(server: Pair) -> None:
    given = settings(
        ssl_keystore_type="PEM",
        ssl_keystore_key=server.key_pem("a secret"),
        ssl_keystore_certificate_chain=server.chain_pem,
        ssl_key_password="a secret",
    )
    build(given)
    with pytest.raises(
        TlsError, match=r"^the private key of ssl\.keystore cannot be read: is ssl\.key\.password right\?$"
    ):
        build(replace(given, ssl_key_password="another"))


def test_an_encrypted_key_in_openssls_old_form_is_read(server: Pair) -> None:
    """The key has the headers Proc-Type and DEK-Info, as `openssl ec -aes256` writes them. The error was once that no
    key exists.
    """
    secret = BestAvailableEncryption(b"a secret")
    key = server.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, secret).decode()
    assert "Proc-Type: 4,ENCRYPTED" in key
    given = settings(
        ssl_keystore_type="PEM", ssl_keystore_key=key, ssl_keystore_certificate_chain=server.chain_pem,
        ssl_key_password="a secret",
    )  # fmt: skip
    build(given)
    with pytest.raises(TlsError, match=r"^ssl\.key\.password is missing; the key of ssl\.keystore\.key is encrypted$"):
        build(replace(given, ssl_key_password=None))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_pkcs12_store_is_read_also_if_jks_is_configured(server: Pair, tmp_path: Path, kind: str) -> None:
    given = settings(
        ssl_keystore_type=kind,
        ssl_keystore_location=server.pkcs12(tmp_path / "k.p12", "secret"),
        ssl_keystore_password="secret",
    )
    assert [subject(one) for one in key_pair(given).chain] == ["CN=server,O=Muster", "CN=Authority,O=Muster"]
    build(given)


@pytest.mark.parametrize("name", ["key.p12", "old.p12"])
def test_pkcs12_stores_of_keytool_and_with_old_ciphers_are_read(name: str) -> None:
    given = settings(
        ssl_keystore_type="PKCS12", ssl_keystore_location=str(STORES / name), ssl_keystore_password="store-secret"
    )
    assert subject(build(given).certificate) == "CN=localhost,O=Muster"


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_jks_store_is_read_also_if_pkcs12_is_configured(kind: str) -> None:
    assert build(settings(ssl_keystore_type=kind, **KEYTOOL)).certificate == SERVER


@pytest.mark.parametrize("name", ["trust.jks", "trust.p12"])
def test_trust_stores_of_keytool_are_read(name: str) -> None:
    given = settings(ssl_truststore_location=str(STORES / name), ssl_truststore_password="trust-secret")
    assert trusted(given) == (SERVER,)


def test_a_jks_trust_store_needs_no_password() -> None:
    assert trusted(settings(ssl_truststore_location=str(STORES / "trust.jks"))) == (SERVER,)


def test_only_the_own_certificate_of_a_key_in_a_trust_store_is_trusted(server: Pair, tmp_path: Path) -> None:
    (one,) = (
        trusted(
            settings(ssl_truststore_location=server.pkcs12(tmp_path / "k", "secret"), ssl_truststore_password="secret")
        )
        or ()
    )
    assert subject(one) == "CN=server,O=Muster"
    assert trusted(settings(ssl_truststore_location=KEYTOOL["ssl_keystore_location"])) == (SERVER,)


def test_the_systems_authorities_are_trusted_without_a_trust_store() -> None:
    assert trusted(settings()) is None


def test_trusted_pem_certificates_are_read(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(authority.pem * 2)
    in_file = trusted(settings(ssl_truststore_type="PEM", ssl_truststore_location=str(path)))
    assert in_file == trusted(settings(ssl_truststore_type="PEM", ssl_truststore_certificates=authority.pem * 2))
    assert in_file is not None
    assert x509.load_der_x509_certificate(in_file[0]) == authority.certificate


LOCATION = {"ssl_keystore_location": "key.jks"}
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({}, "ssl.keystore.location is missing"),
    ({"ssl_keystore_type": "jks", **LOCATION}, "ssl.keystore.type=jks is not known; expected one of PEM, PKCS12, JKS"),
    (LOCATION, "ssl.keystore.password is missing"),
    ({**LOCATION, "ssl_keystore_password": "wrong"}, "ssl.keystore.location key.jks cannot be used: it was changed, or the password is wrong"),
    ({**LOCATION, "ssl_keystore_password": "store-secret"}, "ssl.keystore.location key.jks cannot be used: the password of its key is wrong"),
    ({"ssl_keystore_location": "no.jks", "ssl_keystore_password": "x"}, "ssl.keystore.location no.jks cannot be read: No such file or directory"),
    ({"ssl_keystore_location": ".", "ssl_keystore_password": "x"}, "ssl.keystore.location . cannot be read: Is a directory"),
    ({"ssl_keystore_location": "key.p12", "ssl_keystore_password": "wrong"}, "ssl.keystore.location key.p12 cannot be used: it is no key store, or ssl.keystore.password is wrong"),
    ({"ssl_keystore_location": "trust.p12", "ssl_keystore_password": "trust-secret"}, "ssl.keystore.location trust.p12 has no private key"),
    ({"ssl_keystore_location": "trust.jks", "ssl_keystore_password": "trust-secret"}, "ssl.keystore.location trust.jks has no private key"),
    ({"ssl_keystore_type": "PEM", **LOCATION, "ssl_keystore_password": "x"}, "ssl.keystore.password is not for PEM"),
    ({"ssl_keystore_type": "PEM", **LOCATION}, "ssl.keystore.location key.jks has no private key in PEM"),
    ({"ssl_keystore_key": "K"}, "ssl.keystore.key is for ssl.keystore.type=PEM only, which is JKS"),
    ({"ssl_keystore_type": "PEM", "ssl_keystore_key": "K"}, "ssl.keystore.key is given without ssl.keystore.certificate.chain"),
    ({"ssl_keystore_certificate_chain": "C"}, "ssl.keystore.certificate.chain is given without ssl.keystore.key"),
    ({"ssl_keystore_type": "PEM", "ssl_keystore_key": "K", "ssl_keystore_certificate_chain": "C", **LOCATION}, "ssl.keystore.key and ssl.keystore.location are both given"),
    ({"ssl_keystore_type": "PEM", "ssl_keystore_key": "K", "ssl_keystore_certificate_chain": "C"}, "ssl.keystore.key has no private key in PEM; expected one"),
    ({**KEYTOOL, "ssl_truststore_location": "no"}, "ssl.truststore.location no cannot be read: No such file"),
    ({**KEYTOOL, "ssl_truststore_password": "x"}, "ssl.truststore.password is given without ssl.truststore.location"),
    ({**KEYTOOL, "ssl_truststore_certificates": "C"}, "ssl.truststore.certificates is for ssl.truststore.type=PEM only, which is JKS"),
    ({**KEYTOOL, "ssl_truststore_type": "PEM", "ssl_truststore_certificates": "C"}, "ssl.truststore.certificates has no certificate in PEM"),
    ({**KEYTOOL, "ssl_truststore_location": "trust.jks", "ssl_truststore_password": "wrong"}, "ssl.truststore.location trust.jks cannot be used: it was changed"),
    ({**KEYTOOL, "ssl_enabled_protocols": ("TLSv1.4",)}, "ssl.enabled.protocols: 'TLSv1.4' is not known; expected TLSv1.2 or TLSv1.3"),
    ({**KEYTOOL, "ssl_enabled_protocols": ("TLSv1", "TLSv1.1")}, "ssl.enabled.protocols=TLSv1,TLSv1.1 names only versions that are not safe"),
    ({**KEYTOOL, "ssl_protocol": "tls"}, "ssl.protocol: 'tls' is not known"),
    ({**KEYTOOL, "ssl_cipher_suites": ("ECDHE-RSA-AES128-SHA256",)}, "ssl.cipher.suites: 'ECDHE-RSA-AES128-SHA256' is no suite"),
    ({**KEYTOOL, "ssl_cipher_suites": ("TLS_ECDH_RSA_WITH_AES_128_GCM_SHA256",)}, "ssl.cipher.suites=TLS_ECDH_RSA_WITH_AES_128_GCM_SHA256 has no suite for the versions"),
    ({**KEYTOOL, "ssl_cipher_suites": ("TLS_AES_128_GCM_SHA256",), "ssl_enabled_protocols": ("TLSv1.2",)}, "ssl.cipher.suites=TLS_AES_128_GCM_SHA256 has no suite for the versions"),
    ({**KEYTOOL, "ssl_principal_mapping_rules": "RULE:(/x/"}, "ssl.principal.mapping.rules: '(' is not a regular expression"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), MISTAKES)
def test_each_mistake_in_a_store_has_its_message(
    given: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(STORES)
    with pytest.raises(TlsError) as caught:
        build(settings(**given))
    said = str(caught.value)
    assert said.startswith(sentence)
    assert "\n" not in said
    assert "secret" not in said, "no password is in a message"


def test_a_key_that_does_not_fit_the_certificate_is_refused(authority: Authority, server: Pair) -> None:
    other = authority.signed("CN=other")
    with pytest.raises(TlsError, match="is not that of its first certificate"):
        build(settings(ssl_keystore_type="PEM", ssl_keystore_key=other.key_pem(), ssl_keystore_certificate_chain=server.chain_pem))  # fmt: skip


def test_a_damaged_java_key_store_never_raises_anything_else() -> None:
    data = (STORES / "key.jks").read_bytes()
    for at in range(4, len(data), 7):
        for changed in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
            for password in (None, "store-secret"):
                try:
                    for key, _ in stores.load_jks(changed, password).keys:
                        stores.jks_private_key(key, "key-secret")
                except stores.BadStore:
                    continue


def test_secrets_are_not_printed() -> None:
    given = settings(
        ssl_keystore_password="p1", ssl_key_password="p2", ssl_keystore_key="p3", ssl_truststore_password="p4"
    )
    assert not [secret for secret in ("p1", "p2", "p3", "p4") if secret in repr(given)]
