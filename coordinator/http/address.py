"""Where the HTTP door of a server is, and who may use it: `--http`, `muster.http.listener`, and the old options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from muster.coordinator.config import Config, ConfigError
from muster.coordinator.config.listeners import Address, Listener, parse_address
from muster.coordinator.net.tls.settings import TlsSettings
from muster.coordinator.properties.live import Live

LOOPBACK: Final = frozenset(("127.0.0.1", "::1", "localhost"))
"""Hosts that only this machine can reach."""
LISTENER: Final = "muster.http.listener"
TOKEN_FILE: Final = "muster.http.token.file"
CONTROL: Final = "--control"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The properties of the door; a field's name is the property's with "." as "_"."""

    muster_http_listener: str | None = None
    muster_http_token_file: str | None = None


class DoorAddress(NamedTuple):
    """An address of a door. `port` 0: any free port."""

    host: str
    port: int
    token: str | None = None
    """What clients must send. None: clients need no token."""
    tls: TlsSettings | None = None
    """The settings of TLS. None: requests are not encrypted."""
    figures_only: bool = False
    """Whether only probes and metrics are served, to all who can connect (`--metrics`)."""
    option: str = "--http"
    """The option or property that gave the address, for error messages."""


def read_token(file: str | None, option: str) -> str | None:
    """The token in a file; None without a file. Raises ConfigError."""
    if file is None:
        return None
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {file}: {getattr(error, 'strerror', None) or error}") from error
    if not token:
        raise ConfigError(f"{option} {file}: the file is empty")
    return token


def split_address(text: str, option: str) -> tuple[Address, bool]:
    """Host and port of HOST:PORT, http://HOST:PORT or https://HOST:PORT, and whether the door has TLS.

    Without a scheme, a door off loopback has TLS, but not that of --control. Raises ConfigError.
    """
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme not in ("http", "https"):
        raise ConfigError(f"{option} '{text}': the scheme is to be http or https")
    found = parse_address(rest, option)
    has_tls = scheme == "https" if separator else found.host not in LOOPBACK and option != CONTROL
    return found, has_tls


def door_address(text: str, option: str, token: str | None, config: Config) -> DoorAddress:
    """The door at this address. A door off loopback needs a token. Raises ConfigError."""
    (host, port), has_tls = split_address(text, option)
    if token is None and host not in LOOPBACK:
        needed = f"{option}-token FILE" if option.startswith("--") else TOKEN_FILE
        raise ConfigError(f"{option} {text} can be reached from other machines: that needs {needed}")
    return DoorAddress(host, port, token, _tls(host, port, option, config) if has_tls else None, option=option)


def _tls(host: str, port: int, option: str, config: Config) -> TlsSettings:
    # imported here: a door without TLS does not need them
    from muster.coordinator.config.security import tls_settings
    from muster.coordinator.net.tls.context import build
    from muster.coordinator.net.tls.settings import TlsError

    settings = tls_settings(Listener("HTTP", host, port, protocol="SSL"), Live(config))
    try:
        build(settings)
    except TlsError as error:
        hint = "; http://HOST:PORT is without TLS" if settings.ssl_keystore_location is None else ""
        raise ConfigError(f"{option}: {error}{hint}") from error
    return settings


def configured(
    config: Config, text: str | None = None, option: str = "--http", token_file: Path | None = None
) -> DoorAddress | None:
    """The door of an option, else of the properties; None: the server has no door. Raises ConfigError.

    `token_file`: the file that was given with the option, in place of the property's.
    """
    settings = config.settings(HttpSettings)
    if text is None:
        text, option = settings.muster_http_listener, LISTENER
    file = settings.muster_http_token_file if token_file is None else str(token_file)
    token = read_token(file, TOKEN_FILE if token_file is None else f"{option}-token")
    return None if text is None else door_address(text, option, token, config)
