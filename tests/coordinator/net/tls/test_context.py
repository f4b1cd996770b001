"""The TLS of a listener: versions and cipher suites by their standard names."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from typing import Any

import pytest

from muster.coordinator.net.tls.context import TLS_1_3, TlsContext, build, openssl_name
from muster.coordinator.net.tls.settings import TlsSettings
from tests.coordinator.net.tls.test_stores import KEYTOOL

ECDSA = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def built(**changes: Any) -> TlsContext:
    return build(TlsSettings(**KEYTOOL, **changes))


@pytest.mark.parametrize(
    ("enabled", "versions"),
    [
        (("TLSv1.2", "TLSv1.3"), (V12, V13)),
        (("TLSv1.3",), (V13, V13)),
        (("TLSv1.2",), (V12, V12)),
        ((), (V12, V13)),
        (("TLSv1.1", "TLSv1.2"), (V12, V12)),
    ],
)
def test_the_enabled_tls_versions_are_used(enabled: tuple[str, ...], versions: tuple[ssl.TLSVersion, ...]) -> None:
    made = built(ssl_enabled_protocols=enabled)
    assert (made.context.minimum_version, made.context.maximum_version) == versions
    assert bool(made.notes) == ("TLSv1.1" in enabled)


@pytest.mark.parametrize(
    ("suites", "versions", "notes"),
    [
        ((ECDSA,), (V12, V12), 0),
        ((ECDSA, "TLS_ECDH_RSA_WITH_AES_128_GCM_SHA256"), (V12, V12), 1),
        ((ECDSA, *TLS_1_3), (V12, V13), 0),
        (TLS_1_3, (V13, V13), 0),
    ],
)
def test_the_enabled_cipher_suites_are_used(
    suites: tuple[str, ...], versions: tuple[ssl.TLSVersion, ...], notes: int
) -> None:
    made = built(ssl_cipher_suites=suites)
    assert (made.context.minimum_version, made.context.maximum_version) == versions
    assert len(made.notes) == notes
    if ECDSA in suites:
        older = {one["name"] for one in made.context.get_ciphers()} - set(TLS_1_3)
        assert older == {"ECDHE-ECDSA-AES128-GCM-SHA256"}


def test_a_partial_list_of_tls_1_3_suites_is_used_or_reported() -> None:
    made = built(ssl_cipher_suites=TLS_1_3[:1])
    names = {one["name"] for one in made.context.get_ciphers() if one["protocol"] == "TLSv1.3"}
    assert made.notes or names == set(TLS_1_3[:1])


def test_suite_names_equal_those_of_openssl() -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    output = subprocess.run(["openssl", "ciphers", "-stdname", "ALL:eNULL"], capture_output=True, text=True, check=True)
    pairs = [line.split()[:3:2] for line in output.stdout.splitlines()]
    known = {standard: ours for standard, ours in pairs if openssl_name(standard) is not None}
    assert len(known) > 30
    assert {standard: openssl_name(standard) for standard in known} == known
    # no suite is missing that both Java and OpenSSL have
    assert not [
        standard
        for standard, _ in pairs
        if openssl_name(standard) is None
        and ("AES" in standard or "CHACHA" in standard)
        and standard not in TLS_1_3
        and not any(word in standard for word in ("PSK", "SRP", "anon"))
    ]


def test_each_mode_of_client_certificates_is_set() -> None:
    modes = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    assert {auth: built(ssl_client_auth=auth).context.verify_mode for auth in modes} == modes
    assert built(ssl_client_auth="required").notes, "the system's authorities are trusted"
