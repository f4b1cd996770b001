"""The settings of TLS of each listener, and whether they can be used. Imported when a listener has TLS."""

from __future__ import annotations

import dataclasses
from typing import Any

from muster.coordinator.config.config import Config
from muster.coordinator.config.error import ConfigError
from muster.coordinator.config.listeners import Listener
from muster.coordinator.net.tls.context import build
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.properties.definition import InvalidProperty
from muster.coordinator.properties.live import LISTENER_PREFIX, Live
from muster.coordinator.properties.lookup import BROKER

_CLASSES = ("principal.builder.class", "ssl.engine.factory.class")
"""Who clients are, and who may connect, would be decided by them: to go on without them might open the server."""
CLIENT_AUTH = "ssl.client.auth"


def tls_settings(listener: Listener, live: Live) -> TlsSettings:
    """Of a listener: its own properties before the broker's."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(TlsSettings):
        name = field.name.replace("_", ".")
        values[field.name] = live.of_listener(listener.name, name)
    if listener.protocol == "SASL_SSL":
        # as on Kafka, clients that authenticate by SASL need certificates only where the listener itself says so
        own = live.value(f"{LISTENER_PREFIX}{listener.name.lower()}.{CLIENT_AUTH}")
        values["ssl_client_auth"] = own or "none"
    return TlsSettings(**values)


def check_tls(config: Config) -> None:
    """Can keys and certificates be read and used? Raises ConfigError."""
    live = Live(config)
    for listener in config.listeners:
        if listener.has_tls:
            for name in _CLASSES:
                given = live.of_listener(listener.name, name)
                if given is not None and given != BROKER[name].default:
                    raise ConfigError(f"{name}={given} is a class of Java, which cannot run here; leave it out")
            try:
                build(tls_settings(listener, live))
            except TlsError as error:
                raise ConfigError(f"listener {listener.name}: {error}") from error


def refusal(listener: Listener, error: TlsError) -> InvalidProperty:
    """What a client is told that sets a listener's properties to what cannot be used, in Kafka's form."""
    name = f"{LISTENER_PREFIX}{listener.name.lower()}"
    why = f"Validation of dynamic config update of SSLFactory failed: {error}"
    what = f"Invalid value org.apache.kafka.common.config.ConfigException: {why}"
    return InvalidProperty(name, None, f"{what} for configuration Invalid dynamic configuration")
