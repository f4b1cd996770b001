"""The client's side of OAUTHBEARER: gets a token, and sends it to the broker.

The token stands in the properties or a file, or an identity provider issues it (RFC 6749 4.4). A token without a
signature is made here. The names of properties are those of Kafka's clients; `oauth.access.token` is Strimzi's. Error
texts contain no secrets.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from muster.coordinator.config.checks import ConfigError
from muster.coordinator.net.http_get import http_post
from muster.coordinator.net.tls.context import client_context
from muster.coordinator.net.tls.settings import TlsSettings
from muster.coordinator.system.wall_time import wall_now_ms

OAUTHBEARER: Final = "OAUTHBEARER"
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MAX_TOKEN_BYTES: Final = 512 << 10
"""The most bytes that are read from a token's file, or from an identity provider's answer."""
_PACKAGE: Final = MODULE.rpartition(".")[0]
_HANDLER: Final = "sasl.login.callback.handler.class"
_HANDLERS: Final = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
_RETRIEVERS: Final = tuple(f"{_PACKAGE}.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File"))
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE: Final = "sasl.oauthbearer.scope"
_INLINE: Final = "oauth.access.token"
_EXTENSION: Final = "extension_"
_UNSECURED: Final = "unsecuredLogin"
_USED_UNTIL: Final = 0.8
"""A new token is fetched after this part of a token's lifetime (sasl.login.refresh.window.factor)."""


class NoToken(Exception):
    """The client could not get a token. The text is a sentence without secrets."""


class Bearer:
    """A client that logs in with tokens. `extensions`: sent with each token (RFC 7628). `name`: used in error texts."""

    mechanism: Final = OAUTHBEARER
    name: Final = "the token"

    def __init__(
        self, source: TokenSource, extensions: Mapping[str, str], wall_ms: Callable[[], int] = lambda: wall_now_ms()
    ) -> None:
        self.source = source
        self.extensions = dict(extensions)
        self._wall_ms = wall_ms
        self._token = ""
        self._until_ms = 0

    def __repr__(self) -> str:
        return f"Bearer({type(self.source).__name__}, token hidden)"

    def message(self) -> bytes:
        """The first message of the login. A token is used again for most of its lifetime. Raises NoToken."""
        if self._wall_ms() >= self._until_ms:
            self._token = _checked(self.source.fetch())
            self._until_ms = _until_ms(self._token, self._wall_ms())
        pairs = {"auth": f"Bearer {self._token}", **self.extensions}
        return b"n,,\1" + b"".join(f"{name}={value}\1".encode() for name, value in pairs.items()) + b"\1"


class InlineToken(NamedTuple):
    """A source whose token stands in the properties."""

    token: str

    def fetch(self) -> str:
        return self.token


class FileToken(NamedTuple):
    """A source that reads the token from a file each time, because another program may renew the file."""

    path: str

    def fetch(self) -> str:
        try:
            with Path(self.path).open("rb") as file:
                return file.read(MAX_TOKEN_BYTES).decode()
        except (OSError, ValueError) as error:
            raise NoToken(f"{self.path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


class UnsecuredToken(NamedTuple):
    """A source that makes a token without a signature."""

    claims: Mapping[str, Any]
    lifetime_s: int

    def fetch(self) -> str:
        now_s = wall_now_ms() // 1000
        claims = {"iat": now_s, "exp": now_s + self.lifetime_s, **self.claims}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


class TokenEndpoint(NamedTuple):
    """A source that gets the token from an identity provider. `quotes`: client id and secret are quoted as in URLs."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    quotes: bool = False
    context: ssl.SSLContext | None = None

    def fetch(self) -> str:
        form = {"grant_type": "client_credentials"} | ({} if self.scope is None else {"scope": self.scope})
        pair = [self.client_id, self.client_secret]
        if self.quotes:
            pair = [urllib.parse.quote_plus(one) for one in pair]
        basic = base64.b64encode(":".join(pair).encode()).decode()
        try:
            data = http_post(self.url, form, {"Authorization": f"Basic {basic}"}, self.context, MAX_TOKEN_BYTES)
        except OSError as error:
            raise NoToken(f"{shown(self.url)} gives none: {_why(error)}") from error
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        found = answer.get("access_token") or answer.get("id_token") if isinstance(answer, dict) else None
        if not isinstance(found, str):
            raise NoToken(f"{shown(self.url)} answers without an access_token")
        return found


TokenSource = InlineToken | FileToken | UnsecuredToken | TokenEndpoint
"""A source of tokens. Its `fetch` may raise NoToken."""


def _why(error: OSError) -> object:
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP {error.code} {error.reason}"
    return getattr(error, "reason", None) or error


def shown(url: str) -> str:
    """A URL without its password and its query."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def read(properties: Mapping[str, str], options: Mapping[str, str]) -> Bearer:
    """Make the client that the properties and the login module's options describe. Raises ConfigError and TlsError."""
    _check_classes(properties)
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    return Bearer(_source(properties, options), extensions)


def _check_classes(properties: Mapping[str, str]) -> None:
    for name, known in ((_HANDLER, _HANDLERS), (_RETRIEVER, _RETRIEVERS)):
        given = properties.get(name, "").strip()
        if given and given not in known:
            raise ConfigError(
                f"{name}={given} is a class of Java that cannot run here; expected one of {', '.join(known)}"
            )


def _source(properties: Mapping[str, str], options: Mapping[str, str]) -> TokenSource:
    inline, url = options.get(_INLINE), properties.get(_URL, "").strip()
    if inline is not None:
        return InlineToken(inline)
    if url:
        return _at(url, properties, options)
    if any(name.startswith(_UNSECURED) for name in options):
        return _unsecured(options)
    raise ConfigError(
        f"no token: expected {_URL}=https://HOST/PATH or file:///PATH, or in sasl.jaas.config "
        f'{_INLINE}="TOKEN", or {_UNSECURED}StringClaim_sub="NAME" for one that nobody has signed'
    )


def _at(url: str, properties: Mapping[str, str], options: Mapping[str, str]) -> TokenSource:
    try:
        parts = urllib.parse.urlsplit(url)
        is_good = parts.scheme == "file" or bool(
            parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        )
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigError(f"{_URL} is no URL of a file, http or https; expected https://HOST/PATH or file:///PATH")
    if parts.scheme == "file":
        return FileToken(urllib.request.url2pathname(parts.path))

    def either(name: str, option: str) -> str | None:
        return properties.get(name) or options.get(option)

    client_id, secret = either(_ID, "clientId"), either(_SECRET, "clientSecret")
    for value, name, option in ((client_id, _ID, "clientId"), (secret, _SECRET, "clientSecret")):
        if not value:
            raise ConfigError(f"{name} is missing (or {option} in sasl.jaas.config), for the token of {shown(url)}")
    context = client_context(TlsSettings.of(options)) if parts.scheme == "https" else None
    quotes = properties.get("sasl.oauthbearer.header.urlencode", "").strip().lower() == "true"
    return TokenEndpoint(url, client_id or "", secret or "", either(_SCOPE, "scope"), quotes, context)


def _unsecured(options: Mapping[str, str]) -> UnsecuredToken:
    """Make a token source by the rules of Kafka's OAuthBearerUnsecuredLoginCallbackHandler."""
    claims: dict[str, Any] = {}
    for name, value in options.items():
        kind, _, claim = name.removeprefix(_UNSECURED).partition("_")
        if name.startswith(_UNSECURED) and claim:
            claims[claim] = _claim(name, kind, value)
    lifetime = options.get(f"{_UNSECURED}LifetimeSeconds", "3600").strip()
    if not lifetime.isdecimal():
        raise ConfigError(f"{_UNSECURED}LifetimeSeconds is not a whole number")
    user = options.get(f"{_UNSECURED}PrincipalClaimName", "sub").strip()
    if user not in claims:
        raise ConfigError(f'{_UNSECURED}StringClaim_{user}="NAME" is missing in sasl.jaas.config')
    return UnsecuredToken(claims, int(lifetime))


def _claim(name: str, kind: str, value: str) -> Any:
    if kind == "ListClaim":  # the first character is the separator: |a|b
        return value[1:].split(value[0]) if value else []
    if kind == "NumberClaim":
        try:
            return float(value)
        except ValueError:
            raise ConfigError(f"{name} is not a number") from None
    if kind != "StringClaim":
        raise ConfigError(f"{name} is not known; expected {_UNSECURED}StringClaim_…, NumberClaim_… or ListClaim_…")
    return value


def _checked(token: str) -> str:
    found = token.strip()
    if not found or not found.isascii() or any(character <= " " for character in found):
        raise NoToken("this is no token: one word was expected")
    return found


def _until_ms(token: str, now_ms: int) -> int:
    """Until when (wall ms) the token may be used again. A token without an expiry is used only once."""
    part = token.split(".")[1:2]
    try:
        claims = json.loads(base64.urlsafe_b64decode(part[0] + "=" * (-len(part[0]) % 4)))
        return int(now_ms + max(0, claims["exp"] * 1000 - now_ms) * _USED_UNTIL)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return now_ms


def librdkafka(bearer: Bearer) -> Iterator[tuple[str, str]]:
    """The same client in librdkafka's settings. Raises ConfigError for a source that librdkafka does not have."""
    source = bearer.source
    yield "sasl.mechanism", OAUTHBEARER
    if isinstance(source, TokenEndpoint):
        yield "sasl.oauthbearer.method", "oidc"
        yield "sasl.oauthbearer.token.endpoint.url", source.url
        yield "sasl.oauthbearer.client.id", source.client_id
        yield "sasl.oauthbearer.client.secret", source.client_secret
        if source.scope is not None:
            yield "sasl.oauthbearer.scope", source.scope
        if bearer.extensions:
            yield (
                "sasl.oauthbearer.extensions",
                ",".join(f"{name}={value}" for name, value in bearer.extensions.items()),
            )
    elif isinstance(source, UnsecuredToken) and set(source.claims) == {"sub"} and not bearer.extensions:
        yield "enable.sasl.oauthbearer.unsecure.jwt", "true"
        yield "sasl.oauthbearer.config", f"principal={source.claims['sub']} lifeSeconds={source.lifetime_s}"
    else:
        raise ConfigError(
            f"this token is not for `muster analyze`, which needs an identity provider's address ({_URL}=https://…)"
        )
