"""The settings of TLS and SASL of each listener, and their checks. Imported when a listener has TLS or SASL."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.coordinator.config.checks import ConfigError
from muster.coordinator.config.config import Config
from muster.coordinator.config.listeners import Listener
from muster.coordinator.net.tls.context import build
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.properties.definition import InvalidProperty, Value
from muster.coordinator.properties.live import LISTENER_PREFIX, Live
from muster.coordinator.properties.lookup import BROKER
from muster.coordinator.security.sasl.exchange import PLAIN, Exchange, PlainExchange, PlainUsers, SaslListener
from muster.coordinator.security.sasl.jaas import BadJaas, LoginModule, parse, parse_file
from muster.coordinator.security.sasl.oauthbearer import OAUTHBEARER
from muster.coordinator.security.sasl.scram import MECHANISMS, Credentials, ScramCredential, ScramExchange

if TYPE_CHECKING:
    from muster.coordinator.config.oauthbearer import BearerSettings
    from muster.coordinator.security.sasl.delegation_tokens import DelegationTokens

MECHANISMS_NAME = "sasl.enabled.mechanisms"
HANDLER = "sasl.server.callback.handler.class"
JAAS_FILE = "muster.sasl.jaas.file"
_SECTION = "KafkaServer"
SERVED = (PLAIN, *MECHANISMS, OAUTHBEARER)
_REAUTH = "connections.max.reauth.ms"
_MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(MECHANISMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


def words(value: Value) -> tuple[str, ...]:
    """The words of a list value."""
    return value if isinstance(value, tuple) else ()


class SaslSettings(NamedTuple):
    """The SASL settings of a listener. `users`: the users of PLAIN. `bearer`: how tokens are checked."""

    mechanisms: tuple[str, ...]
    users: PlainUsers
    max_reauth_ms: dict[str, int]
    failure_delay_ms: int
    max_receive_bytes: int
    bearer: BearerSettings | None = None


def sasl_settings(listener: Listener, live: Live) -> SaslSettings:
    """The settings of a listener. Raises ConfigError."""
    mechanisms = words(live.of_listener(listener.name, MECHANISMS_NAME))
    unknown = [one for one in mechanisms if one not in SERVED]
    if unknown or not mechanisms:
        raise ConfigError(
            f"listener {listener.name}: {MECHANISMS_NAME}={','.join(mechanisms)} has a mechanism that is not served; "
            f"expected some of {', '.join(SERVED)}"
        )
    users, bearer = PlainUsers({}), None
    reauth: dict[str, int] = {}
    sections = _sections(live)
    for mechanism in mechanisms:
        module = _module(listener, mechanism, live, sections)
        if mechanism == PLAIN:
            users = PlainUsers({} if module is None else module.options)
            if not users:
                name = _jaas_name(listener, PLAIN)
                raise ConfigError(
                    f"{name} names no user, so nobody could authenticate; expected "
                    f'{_MODULES[PLAIN]} required user_alice="…"; there, or in the file {JAAS_FILE}'
                )
        elif mechanism == OAUTHBEARER:
            bearer = _bearer(listener, module, live)
        reauth[mechanism] = _number(live.of_mechanism(listener.name, mechanism, _REAUTH))
    return SaslSettings(
        mechanisms,
        users,
        reauth,
        _number(live.value("connection.failed.authentication.delay.ms")),
        _number(live.of_listener(listener.name, "sasl.server.max.receive.size")),
        bearer,
    )


def _bearer(listener: Listener, module: LoginModule | None, live: Live) -> BearerSettings:
    try:
        from muster.coordinator.config.oauthbearer import bearer_settings  # few servers have tokens
    except ImportError as error:
        raise ConfigError(
            f"listener {listener.name}: {OAUTHBEARER} needs the package PyJWT; pip install 'muster-kafka[secure]'"
        ) from error
    return bearer_settings(listener, {} if module is None else module.options, live)


def _module(
    listener: Listener, mechanism: str, live: Live, sections: Mapping[str, Sequence[LoginModule]]
) -> LoginModule | None:
    """A mechanism's login module: the listener's own property, else the file's section for it, or for all listeners."""
    name = _jaas_name(listener, mechanism)
    text = live.value(name)
    if text is None:
        found = sections.get(f"{listener.name.lower()}.{_SECTION}", sections.get(_SECTION, ()))
        return next((module for module in found if module.name == _MODULES[mechanism]), None)
    try:
        module = parse(str(text))
    except BadJaas as error:
        raise ConfigError(f"{name}: {error}; expected {_MODULES[mechanism]} required …;") from error
    if module.name != _MODULES[mechanism]:
        raise ConfigError(f"{name} names {module.name}, which cannot run here; expected {_MODULES[mechanism]}")
    return module


def _sections(live: Live) -> Mapping[str, Sequence[LoginModule]]:
    path = live.value(JAAS_FILE)
    if path is None:
        return {}
    try:
        data = Path(str(path)).read_bytes()
        return parse_file(data.decode())
    except BadJaas as error:
        raise ConfigError(f"{JAAS_FILE} {path}: {error}; expected {_SECTION} {{ … }};") from error
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise ConfigError(f"{JAAS_FILE} {path} cannot be read: {why}") from error


def stamp(listener: Listener, live: Live) -> object:
    """A value that changes when the settings of a listener may have changed."""
    prefix = f"{LISTENER_PREFIX}{listener.name.lower()}."
    own = {name: text for name, text in live.own.items() if name.startswith(prefix)}
    path = live.value(JAAS_FILE)
    try:
        found = None if path is None else os.stat(str(path))
    except OSError as error:
        return own, error.errno
    return own, None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)


def refusal(listener: Listener, why: object) -> InvalidProperty:
    """The error for a client that sets unusable properties of a listener, in Kafka's form."""
    name = f"{LISTENER_PREFIX}{listener.name.lower()}"
    what = f"Invalid value org.apache.kafka.common.config.ConfigException: {why}"
    return InvalidProperty(name, None, f"{what} for configuration Invalid dynamic configuration")


def _jaas_name(listener: Listener, mechanism: str) -> str:
    return f"{LISTENER_PREFIX}{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0


def sasl_listener(
    settings: SaslSettings,
    find: Callable[[str, int], ScramCredential | None],
    draw_nonce: Callable[[], str],
    secret: bytes,
    begin_bearer: Callable[[], Exchange] | None,
    tokens: DelegationTokens | None,
    iterations: Callable[[int, int], int] | None,
) -> SaslListener:
    """`find`: finds a credential by user and type. `secret`: see `scram.Credentials`. `begin_bearer`: begins an
    exchange of OAUTHBEARER. `tokens`: the delegation tokens, if enabled. `iterations`: see `scram_users`.
    """
    begins: dict[str, Callable[[], Exchange]] = {}
    for name in settings.mechanisms:
        if name == PLAIN:
            begins[name] = partial(PlainExchange, settings.users)
        elif name == OAUTHBEARER:
            assert begin_bearer is not None
            begins[name] = begin_bearer
        else:
            mechanism = MECHANISMS[name]
            find_token = None if tokens is None else tokens.credential
            known = Credentials(
                mechanism, partial(_find, find, mechanism.type), draw_nonce, secret, find_token, iterations
            )
            begins[name] = partial(ScramExchange, known)
    return SaslListener(
        begins, settings.max_reauth_ms, settings.failure_delay_ms, settings.max_receive_bytes, tokens is not None
    )


def _find(find: Callable[[str, int], ScramCredential | None], kind: int, user: str) -> ScramCredential | None:
    return find(user, kind)


_CLASSES = ("principal.builder.class", "ssl.engine.factory.class")
"""These classes would decide who clients are and who may connect. A server that ignored these classes might admit
anybody.
"""
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
    """Check that keys, certificates and the configuration of authentication can be used. Raises ConfigError."""
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
