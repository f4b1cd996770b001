"""The settings of TLS of one listener. Field names are Kafka's property names with "." -> "_"."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class TlsError(Exception):
    """TLS is not possible with these settings. The text is one sentence that names the property and no secret."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Kafka's defaults. Printed settings show no passwords, keys or certificates."""

    ssl_keystore_type: str = "JKS"
    ssl_keystore_location: str | None = None
    ssl_keystore_password: str | None = field(default=None, repr=False)
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_keystore_key: str | None = field(default=None, repr=False)
    ssl_keystore_certificate_chain: str | None = field(default=None, repr=False)
    ssl_truststore_type: str = "JKS"
    ssl_truststore_location: str | None = None
    ssl_truststore_password: str | None = field(default=None, repr=False)
    ssl_truststore_certificates: str | None = field(default=None, repr=False)
    ssl_client_auth: str = "none"
    ssl_protocol: str = "TLSv1.3"
    ssl_enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: tuple[str, ...] = ()
    ssl_principal_mapping_rules: str = "DEFAULT"
    ssl_allow_dn_changes: bool = False
    ssl_allow_san_changes: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files that these settings name."""
        return tuple(filter(None, (self.ssl_keystore_location, self.ssl_truststore_location)))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TlsSettings:
        """The settings from properties whose names begin with ssl. Other properties are ignored."""
        values: dict[str, Any] = {}
        for one in dataclasses.fields(cls):
            text = properties.get(one.name.replace("_", "."))
            if text is None:
                continue
            if isinstance(one.default, tuple):
                values[one.name] = tuple(filter(None, (word.strip() for word in text.split(","))))
            elif not isinstance(one.default, bool):
                values[one.name] = text
        return cls(**values)
