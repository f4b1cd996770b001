"""Certificates that change while the server runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from muster.coordinator.net.tls.context import ListenerTls
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.security.distinguished_name import subject
from tests.coordinator.net.tls.test_stores import KEYTOOL
from tests.support.certificates import Authority

AUTHORITY = Authority()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    AUTHORITY.signed("CN=one", host="one").pem(path)
    return path


@pytest.fixture
def tls(path: Path) -> Iterator[ListenerTls]:
    return ListenerTls("SSL", TlsSettings(ssl_keystore_type="PEM", ssl_keystore_location=str(path)))


def renewed(tls: ListenerTls, settings: TlsSettings | None = None) -> list[str]:
    with capture_logs() as logs:
        tls.renew(settings)
    return [line["event"] for line in logs]


def test_unchanged_certificates_are_not_read_again(tls: ListenerTls) -> None:
    before = tls.now
    assert renewed(tls) == []
    assert tls.now is before


def test_a_new_certificate_file_is_used(tls: ListenerTls, path: Path) -> None:
    AUTHORITY.signed("CN=two").pem(path)
    assert renewed(tls) == ["certificates were read anew"]
    assert subject(tls.now.certificate) == "CN=two"
    assert renewed(tls) == []


def test_a_changed_link_counts_as_a_new_certificate_file(tls: ListenerTls, path: Path) -> None:
    other = path.with_name("other")
    AUTHORITY.signed("CN=two").pem(other)
    stat = path.stat()
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.unlink()
    path.symlink_to(other)
    assert renewed(tls) == ["certificates were read anew"]


@pytest.mark.parametrize("bad", ["empty", "gone", "half"])
def test_bad_certificates_are_reported_once_and_the_old_ones_stay(tls: ListenerTls, path: Path, bad: str) -> None:
    before = tls.now
    text = path.read_text()
    if bad == "gone":
        path.unlink()
    else:
        path.write_text("" if bad == "empty" else text[: len(text) // 2])
    assert renewed(tls) == ["the new certificates cannot be used, the old ones are kept"]
    assert renewed(tls) == []
    assert tls.now is before
    AUTHORITY.signed("CN=two").pem(path)
    assert renewed(tls) == ["certificates were read anew"]


def test_new_tls_settings_are_used(tls: ListenerTls) -> None:
    assert renewed(tls, TlsSettings(**KEYTOOL)) == ["certificates were read anew"]
    assert subject(tls.now.certificate) == "CN=localhost,O=Muster"
    assert renewed(tls) == []


def test_changes_of_tls_settings_that_kafka_refuses_are_refused(tls: ListenerTls, path: Path) -> None:
    """Kafka's SslFactory refuses the same changes."""
    now = TlsSettings(ssl_keystore_type="PEM", ssl_keystore_location=str(path))
    tls.check(now)
    AUTHORITY.signed("CN=one", host="one").pem(path)
    tls.check(now)
    AUTHORITY.signed("CN=one", host="two").pem(path)
    with pytest.raises(TlsError, match="SubjectAltNames do not match"):
        tls.check(now)
    tls.check(replace(now, ssl_allow_san_changes=True))
    AUTHORITY.signed("CN=two", host="one").pem(path)
    with pytest.raises(TlsError, match="DistinguishedName does not match: existing=CN=one, new=CN=two"):
        tls.check(now)
    tls.check(replace(now, ssl_allow_dn_changes=True))
    path.unlink()
    with pytest.raises(TlsError, match="cannot be read"):
        tls.check(now)
    AUTHORITY.signed("CN=one", host="one").pem(path)
    with pytest.raises(TlsError, match="Cannot add SSL truststore"):
        tls.check(replace(now, ssl_truststore_type="PEM", ssl_truststore_certificates=AUTHORITY.pem))
