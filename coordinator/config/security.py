"""The settings of TLS and SASL of each listener, and whether they can be used. Imported when a listener has either."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from muster.coordinator.config.config import Config
from muster.coordinator.config.error import ConfigError
from muster.coordinator.config.listeners import Listener
from muster.coordinator.net.tls.context import build
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.properties.definition import InvalidProperty, Value
from muster.coordinator.properties.live import LISTENER_PREFIX, Live
from muster.coordinator.properties.lookup import BROKER
from muster.coordinator.security.sasl.exchange import Exchange, SaslListener
from muster.coordinator.security.sasl.jaas import BadJaas, LoginModule, parse
from muster.coordinator.security.sasl.plain import PLAIN, PlainExchange, PlainUsers
from muster.coordinator.security.sasl.scram import MECHANISMS, Credentials, ScramCredential, ScramExchange

_CLASSES = ("principal.builder.class", "ssl.engine.factory.class")
"""Who clients are, and who may connect, would be decided by them: to go on without them might open the server."""
MECHANISMS_NAME = "sasl.enabled.mechanisms"
_HANDLER = "sasl.server.callback.handler.class"
_REAUTH = "connections.max.reauth.ms"
_MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(MECHANISMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
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


def check_security(config: Config) -> None:
    """Can keys and certificates be read and used, and is it clear who may come in? Raises ConfigError."""
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
    mechanisms = [f"{one.lower()}." for one in _words(live.of_listener(listener.name, MECHANISMS_NAME))]
    for name in (*_CLASSES, *(f"{one}{_HANDLER}" for one in ("", *mechanisms))):
        given = live.of_listener(listener.name, name) if name in BROKER else _own(listener, name, live)
        default = BROKER[name].default if name in BROKER else None
        if given is not None and given != default:
            raise ConfigError(f"{name}={given} is a class of Java, which cannot run here; leave it out")


def _own(listener: Listener, name: str, live: Live) -> Value:
    return live.value(f"{LISTENER_PREFIX}{listener.name.lower()}.{name}")


def _words(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


class SaslSettings(NamedTuple):
    """What a listener asks of its clients. `users`: of PLAIN."""

    mechanisms: tuple[str, ...]
    users: PlainUsers
    max_reauth_ms: dict[str, int]
    failure_delay_ms: int
    max_receive_bytes: int


def sasl_settings(listener: Listener, live: Live) -> SaslSettings:
    """Of a listener. Raises ConfigError."""
    mechanisms = _words(live.of_listener(listener.name, MECHANISMS_NAME))
    unknown = [one for one in mechanisms if one not in (PLAIN, *MECHANISMS)]
    if unknown or not mechanisms:
        raise ConfigError(
            f"listener {listener.name}: {MECHANISMS_NAME}={','.join(mechanisms)} has a mechanism that is not served; "
            f"expected some of {', '.join((PLAIN, *MECHANISMS))}"
        )
    users = PlainUsers({})
    reauth: dict[str, int] = {}
    for mechanism in mechanisms:
        module = _module(listener, mechanism, live)
        if mechanism == PLAIN:
            users = PlainUsers({} if module is None else module.options)
            if not users:
                name = _jaas_name(listener, PLAIN)
                raise ConfigError(
                    f"{name} names no user, so nobody could come in; expected "
                    f'{_MODULES[PLAIN]} required user_alice="…";'
                )
        own = _own(listener, f"{mechanism.lower()}.connections.max.reauth.ms", live)
        reauth[mechanism] = _number(own if own is not None else live.of_listener(listener.name, _REAUTH))
    return SaslSettings(
        mechanisms,
        users,
        reauth,
        _number(live.value("connection.failed.authentication.delay.ms")),
        _number(live.of_listener(listener.name, "sasl.server.max.receive.size")),
    )


def _module(listener: Listener, mechanism: str, live: Live) -> LoginModule | None:
    name = _jaas_name(listener, mechanism)
    text = live.value(name)
    if text is None:
        return None
    try:
        module = parse(str(text))
    except BadJaas as error:
        raise ConfigError(f"{name}: {error}; expected {_MODULES[mechanism]} required …;") from error
    if module.name != _MODULES[mechanism]:
        raise ConfigError(f"{name} names {module.name}, which cannot run here; expected {_MODULES[mechanism]}")
    return module


def _jaas_name(listener: Listener, mechanism: str) -> str:
    return f"{LISTENER_PREFIX}{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0


def sasl_listener(
    settings: SaslSettings,
    find: Callable[[str, int], ScramCredential | None],
    draw_nonce: Callable[[], str],
    secret: bytes,
) -> SaslListener:
    """`find`: the credential of a user, by name and type of the mechanism; `secret`: see `scram.Credentials`."""
    begins: dict[str, Callable[[], Exchange]] = {}
    for name in settings.mechanisms:
        if name == PLAIN:
            begins[name] = partial(PlainExchange, settings.users)
        else:
            mechanism = MECHANISMS[name]
            known = Credentials(mechanism, partial(_find, find, mechanism.type), draw_nonce, secret)
            begins[name] = partial(ScramExchange, known)
    return SaslListener(begins, settings.max_reauth_ms, settings.failure_delay_ms, settings.max_receive_bytes)


def _find(find: Callable[[str, int], ScramCredential | None], kind: int, user: str) -> ScramCredential | None:
    return find(user, kind)


def refusal(listener: Listener, error: TlsError) -> InvalidProperty:
    """What a client is told that sets a listener's properties to what cannot be used, in Kafka's form."""
    name = f"{LISTENER_PREFIX}{listener.name.lower()}"
    why = f"Validation of dynamic config update of SSLFactory failed: {error}"
    what = f"Invalid value org.apache.kafka.common.config.ConfigException: {why}"
    return InvalidProperty(name, None, f"{what} for configuration Invalid dynamic configuration")
