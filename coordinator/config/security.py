"""The settings of TLS and SASL of each listener, and the check that they can be used. It is imported when a listener
has either.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from muster.coordinator.config.config import Config
from muster.coordinator.config.error import ConfigError
from muster.coordinator.config.listeners import Listener
from muster.coordinator.config.sasl import HANDLER, MECHANISMS_NAME, sasl_settings, words
from muster.coordinator.net.tls.context import build
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.properties.definition import InvalidProperty
from muster.coordinator.properties.live import LISTENER_PREFIX, Live
from muster.coordinator.properties.lookup import BROKER
from muster.coordinator.security.sasl.oauthbearer import OAUTHBEARER

_CLASSES = ("principal.builder.class", "ssl.engine.factory.class")
"""These classes would decide who clients are and who may connect. Ignoring them might open the server."""
CLIENT_AUTH = "ssl.client.auth"


def tls_settings(listener: Listener, live: Live) -> TlsSettings:
    """The settings of a listener: its own properties override the broker's."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(TlsSettings):
        name = field.name.replace("_", ".")
        values[field.name] = live.of_listener(listener.name, name)
    if listener.protocol == "SASL_SSL":
        # as on Kafka, clients that authenticate by SASL need certificates only if the listener's own property says so
        own = live.value(f"{LISTENER_PREFIX}{listener.name.lower()}.{CLIENT_AUTH}")
        values["ssl_client_auth"] = own or "none"
    return TlsSettings(**values)


def check_security(config: Config) -> None:
    """Check that keys and certificates can be read and used, and that authentication is configured clearly. Raises
    ConfigError.
    """
    live = Live(config)
    for listener in config.listeners:
        if listener.has_tls or listener.has_sasl:
            _check_classes(listener, live)
        if listener.has_tls:
            try:
                build(tls_settings(listener, live))
            except TlsError as error:
                raise ConfigError(f"listener {listener.name}: {error}") from error
        if listener.has_sasl:
            sasl_settings(listener, live)


def _check_classes(listener: Listener, live: Live) -> None:
    mechanisms = [f"{one.lower()}." for one in words(live.of_listener(listener.name, MECHANISMS_NAME))]
    # the class of OAUTHBEARER decides how tokens are checked: see `oauthbearer`
    handlers = [f"{one}{HANDLER}" for one in ("", *mechanisms) if one != f"{OAUTHBEARER.lower()}."]
    for name in (*_CLASSES, *handlers):
        given = live.of_listener(listener.name, name) if name in BROKER else live.own_of(listener.name, name)
        default = BROKER[name].default if name in BROKER else None
        if given is not None and given != default:
            raise ConfigError(f"{name}={given} is a class of Java, which cannot run here; leave it out")


def refusal(listener: Listener, error: TlsError) -> InvalidProperty:
    """The error for a client that sets unusable properties of a listener, in Kafka's form."""
    name = f"{LISTENER_PREFIX}{listener.name.lower()}"
    why = f"Validation of dynamic config update of SSLFactory failed: {error}"
    what = f"Invalid value org.apache.kafka.common.config.ConfigException: {why}"
    return InvalidProperty(name, None, f"{what} for configuration Invalid dynamic configuration")
