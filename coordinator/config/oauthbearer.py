"""How a listener checks the tokens of OAUTHBEARER. This module is imported when a listener has that mechanism.

Kafka accepts tokens without a signature by default. Here the class for such tokens must be configured by name.
"""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import structlog

from muster.coordinator.config.checks import ConfigError
from muster.coordinator.config.listeners import Listener
from muster.coordinator.net.fetch_thread import FetchThread
from muster.coordinator.net.http_get import http_get
from muster.coordinator.net.jwks_source import MAX_BYTES, JwksFile, JwksUrl, RefreshIntervals, read_file
from muster.coordinator.net.tls.context import client_context
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.properties.definition import Value
from muster.coordinator.properties.live import LISTENER_PREFIX, Live
from muster.coordinator.security.sasl import oauthbearer
from muster.coordinator.security.sasl.jwt import BadKeys, Expected, JwtCheck
from muster.coordinator.system.clock import Clock

log = structlog.get_logger("muster.net")

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
SIGNED = f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler"
UNSECURED = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_VALIDATORS = (f"{_PACKAGE}.DefaultJwtValidator", f"{_PACKAGE}.BrokerJwtValidator")
_HANDLER = "sasl.server.callback.handler.class"
_URL = "sasl.oauthbearer.jwks.endpoint.url"


class BearerSettings(NamedTuple):
    """`unsecured`: tokens need no signature. `url`: the document with the keys of signed tokens, fetched with `tls`."""

    unsecured: oauthbearer.UnsecuredOptions | None
    url: str = ""
    expected: Expected = Expected()
    intervals: RefreshIntervals = RefreshIntervals(0, 0, 0)
    tls: TlsSettings = TlsSettings()

    @property
    def path(self) -> str | None:
        """The file with the keys. None means that the keys are at a URL."""
        parts = urllib.parse.urlsplit(self.url)
        return urllib.request.url2pathname(parts.path) if parts.scheme == "file" else None

    @property
    def is_open(self) -> bool:
        """Whether the keys are fetched without encryption: then an attacker could replace them."""
        parts = urllib.parse.urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


def bearer_settings(listener: Listener, options: Mapping[str, str], live: Live) -> BearerSettings:
    """The settings of a listener. `options`: the options of the listener's login module. Raises ConfigError."""
    name = f"{LISTENER_PREFIX}{listener.name.lower()}.{oauthbearer.OAUTHBEARER.lower()}.{_HANDLER}"
    handler, url = live.value(name), _of(listener, live, _URL)
    if handler == UNSECURED:
        try:
            return BearerSettings(oauthbearer.UnsecuredOptions.read(options))
        except oauthbearer.BadOption as error:
            raise ConfigError(f"listener {listener.name}: {error}") from error
    if handler not in (None, SIGNED):
        raise ConfigError(
            f"{name}={handler} is a class of Java, which cannot run here; expected {SIGNED}, or {UNSECURED} for tokens "
            "that nobody has signed"
        )
    if not url:
        raise ConfigError(
            f"listener {listener.name}: {_URL} is missing, so no token could be checked; for tokens that nobody has "
            f"signed, as in tests, say {name}={UNSECURED}"
        )
    validator = _of(listener, live, "sasl.oauthbearer.jwt.validator.class")
    if validator not in _VALIDATORS:
        raise ConfigError(f"sasl.oauthbearer.jwt.validator.class={validator} cannot run here; leave it out")
    # Kafka reads the TLS settings for an endpoint from the options of the login module
    tls = TlsSettings.of(options)
    found = BearerSettings(None, str(url), _expected(listener, live), _intervals(listener, live), tls)
    _check(listener, found)
    return found


def _of(listener: Listener, live: Live, name: str) -> Value:
    return live.of_mechanism(listener.name, oauthbearer.OAUTHBEARER, name)


def _expected(listener: Listener, live: Live) -> Expected:
    def text(name: str) -> str:
        value = str(_of(listener, live, name) or "").strip()
        if not value:
            raise ConfigError(f"listener {listener.name}: {name} is empty; leave it out, or name a claim")
        return value

    audiences = _of(listener, live, "sasl.oauthbearer.expected.audience")
    issuer = _of(listener, live, "sasl.oauthbearer.expected.issuer")
    return Expected(
        frozenset(audiences if isinstance(audiences, tuple) else ()),
        None if issuer is None else str(issuer),
        text("sasl.oauthbearer.scope.claim.name"),
        text("sasl.oauthbearer.sub.claim.name"),
        _number(listener, live, "sasl.oauthbearer.clock.skew.seconds", 0),
    )


def _intervals(listener: Listener, live: Live) -> RefreshIntervals:
    prefix = "sasl.oauthbearer.jwks.endpoint."
    intervals = RefreshIntervals(
        _number(listener, live, f"{prefix}refresh.ms", 1),
        _number(listener, live, f"{prefix}retry.backoff.ms", 0),
        _number(listener, live, f"{prefix}retry.backoff.max.ms", 0),
    )
    if intervals.max_backoff_ms < intervals.backoff_ms:
        raise ConfigError(f"listener {listener.name}: {prefix}retry.backoff.max.ms is less than …retry.backoff.ms")
    return intervals


def _number(listener: Listener, live: Live, name: str, least: int) -> int:
    value = _of(listener, live, name)
    if not isinstance(value, int) or value < least:
        raise ConfigError(f"listener {listener.name}: {name}={value} is not valid; expected at least {least}")
    return value


def _check(listener: Listener, settings: BearerSettings) -> None:
    try:
        parts = urllib.parse.urlsplit(settings.url)
        is_good = parts.scheme == "file" or (parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigError(
            f"listener {listener.name}: {_URL} is no URL of a file, http or https; expected "
            "https://HOST/PATH or file:///PATH"
        )
    try:
        if settings.path is not None:
            read_file(settings.path)
        elif parts.scheme == "https":
            client_context(settings.tls)
    except BadKeys as error:
        raise ConfigError(f"listener {listener.name}: {_URL}={_shown(settings.url)} cannot be used: {error}") from error
    except TlsError as error:
        raise ConfigError(f"listener {listener.name}, for {_URL}: {error}") from error


def _shown(url: str) -> str:
    """The URL without its password."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class Bearer:
    """Begins the exchanges of a listener's clients."""

    def __init__(
        self,
        listener: str,
        settings: BearerSettings,
        clock: Clock,
        post: Callable[[Callable[[], object]], object],
    ) -> None:
        """`post`: runs a callable on the event loop soon, from any thread."""
        self._source: JwksFile | JwksUrl | None = None
        self._refused = partial(log.warning, "a token was refused", listener=listener)

        def wall_ms() -> int:
            return clock.now().wall_ms

        if settings.unsecured is not None:
            self._check: Callable[[str], oauthbearer.BearerToken] = oauthbearer.UnsecuredCheck(
                settings.unsecured, wall_ms
            )
            log.warning("tokens need no signature: a client may claim any name", listener=listener)
            return
        if settings.path is not None:
            self._source = JwksFile(settings.path)
        else:
            context = client_context(settings.tls) if settings.url.lower().startswith("https:") else None
            fetch = partial(http_get, settings.url, context, MAX_BYTES)
            self._source = JwksUrl(_shown(settings.url), fetch, settings.intervals, clock, FetchThread(post))
        self._check = JwtCheck(self._source, settings.expected, wall_ms)

    def begin(self) -> oauthbearer.OAuthBearerExchange:
        """Begin the exchange of one client."""
        return oauthbearer.OAuthBearerExchange(self._check, lambda why: self._refused(why=why))

    def stop(self) -> None:
        """Stop fetching keys."""
        if self._source is not None:
            self._source.stop()
