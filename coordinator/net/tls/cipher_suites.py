"""Names of cipher suites. Java and Kafka use the names of the standard (TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384). OpenSSL
has its own (ECDHE-RSA-AES256-GCM-SHA384).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 that OpenSSL offers. Their names are the same."""
_NAME: Final = re.compile(
    r"TLS_(ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|DHE_DSS|RSA)_WITH_"
    r"(?:(AES)_(128|256)_(GCM|CBC|CCM_8|CCM)(?:_(SHA|SHA256|SHA384))?|(CHACHA20_POLY1305)_SHA256)",
    re.ASCII,
)
_EXCHANGES: Final[Mapping[str, str]] = MappingProxyType({"RSA": ""})


def is_name(name: str) -> bool:
    """Whether it could be the name of a suite that Java knows."""
    return re.fullmatch(r"(TLS|SSL)_[A-Z0-9a-z_]+", name) is not None


def openssl_name(name: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2, or None if OpenSSL does not have it."""
    found = _NAME.fullmatch(name)
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
