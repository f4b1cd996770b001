"""Tokens of Muster's own commands: their sources, how they are shown, and the error when there is no token."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from muster.client import oauth_login, security
from muster.client.oauth_login import MODULE, Bearer, InlineToken, NoToken
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.security.sasl.exchange import AuthenticationFailed
from muster.coordinator.security.sasl.oauthbearer import OAuthBearerExchange, UnsecuredCheck, UnsecuredOptions
from muster.coordinator.system.wall_time import wall_now_ms

SECRET = "hunter2"
START = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
PACKAGE = MODULE.rpartition(".")[0]
URL = "sasl.oauthbearer.token.endpoint.url"
NOW_MS = 1_700_000_000_000


def bearer(folder: Path, *lines: str, options: str = "") -> Bearer:
    """The token settings of a client.properties with these lines."""
    file = folder / "client.properties"
    file.write_text("\n".join([START, f"sasl.jaas.config={MODULE} required {options};", *lines]))
    found = security.read(file).user
    assert isinstance(found, Bearer)
    return found


class Provider:
    """An identity provider on a port. `answers`: status, headers and text of each answer; the last answer is
    repeated.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, list[str]]]] = []
        self.answers: list[tuple[int, dict[str, str], str]] = [(200, {}, '{"access_token": "a.b.c"}')]
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                outer.asked.append((self.path, dict(self.headers), form))
                status, headers, text = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        """Stop the provider."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.stop()


def test_a_token_in_the_client_properties_is_sent(tmp_path: Path) -> None:
    found = bearer(tmp_path, options='oauth.access.token=" a.b.c " extension_traceId="7"')
    assert found.message() == b"n,,\1auth=Bearer a.b.c\1traceId=7\1\1"
    assert "a.b.c" not in repr(found)


def test_the_token_file_is_read_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    found = bearer(
        tmp_path, f"{URL}={file.as_uri()}", f"sasl.oauthbearer.jwt.retriever.class={PACKAGE}.FileJwtRetriever"
    )
    with pytest.raises(NoToken, match="cannot be read: No such file"):
        found.message()
    for token in ("a.b.c", "d.e.f"):
        file.write_text(f"{token}\n")
        assert found.message() == f"n,,\1auth=Bearer {token}\1\1".encode()
    for text in ("", "two words", "ümlaut"):
        file.write_text(text)
        with pytest.raises(NoToken, match="this is no token"):
            found.message()


@pytest.mark.parametrize("is_old", [False, True])
def test_an_identity_provider_is_asked_with_the_id_and_the_secret(
    tmp_path: Path, provider: Provider, is_old: bool
) -> None:
    lines = [f"{URL}={provider.url}", f"sasl.login.callback.handler.class={PACKAGE}.OAuthBearerLoginCallbackHandler"]
    if is_old:
        found = bearer(tmp_path, *lines, options=f'clientId="me+" clientSecret="{SECRET}" scope="all"')
    else:
        found = bearer(
            tmp_path, *lines, "sasl.oauthbearer.client.credentials.client.id=me+",
            f"sasl.oauthbearer.client.credentials.client.secret={SECRET}", "sasl.oauthbearer.scope=all",
            "sasl.oauthbearer.header.urlencode=true",
        )  # fmt: skip
    assert found.message() == b"n,,\1auth=Bearer a.b.c\1\1"
    ((path, headers, form),) = provider.asked
    assert path == "/token"
    assert form == {"grant_type": ["client_credentials"], "scope": ["all"]}
    pair = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert pair == ("me+" if is_old else "me%2B") + f":{SECRET}"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("status", "headers", "text", "said"),
    [
        (401, {}, "{}", "gives none: HTTP 401 Unauthorized"),
        (302, {"Location": "/elsewhere"}, "", "gives none: HTTP 302 Found"),
        (200, {}, "no JSON", "answers without an access_token"),
        (200, {}, "[]", "answers without an access_token"),
        (200, {}, '{"access_token": 5}', "answers without an access_token"),
        (200, {}, " " * (oauth_login.MAX_TOKEN_BYTES + 1), "has more than"),
    ],
)
def test_a_provider_without_a_token_is_refused_without_showing_the_secret(
    tmp_path: Path, provider: Provider, status: int, headers: dict[str, str], text: str, said: str
) -> None:
    provider.answers = [(status, headers, text)]
    url = provider.url.replace("//", f"//me:{SECRET}@").replace("me:hunter2@", "")
    found = bearer(tmp_path, f"{URL}={url}?key=secret", options=f'clientId="me" clientSecret="{SECRET}"')
    with pytest.raises(NoToken, match=said) as error:
        found.message()
    assert str(error.value).startswith(provider.url)
    assert SECRET not in str(error.value)
    assert "key=" not in str(error.value)
    assert len(provider.asked) == 1


def test_an_unreachable_identity_provider_is_reported(tmp_path: Path, provider: Provider) -> None:
    found = bearer(tmp_path, f"{URL}=http://127.0.0.1:1/", options='clientId="me" clientSecret="x"')
    with pytest.raises(NoToken, match=r"127\.0\.0\.1:1/ gives none: .*refused"):
        found.message()


def token(**claims: Any) -> str:
    """A token with these claims, signed by a key that no server trusts."""
    return f"x.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.x"


def test_a_token_is_used_for_most_of_its_time() -> None:
    now_ms = NOW_MS
    fetched: list[str] = []

    class Source:
        def fetch(self) -> str:
            fetched.append(token(exp=now_ms // 1000 + 100))
            return fetched[-1]

    user = Bearer(Source(), {}, lambda: now_ms)
    first = user.message()
    now_ms += 79_999
    assert user.message() == first
    now_ms += 1
    assert user.message() != first
    assert len(fetched) == 2


@pytest.mark.parametrize("text", ["opaque", "x.!.x", token(), token(exp="soon"), token(exp=1), "x.W10.x"])
def test_a_token_without_an_expiry_is_fetched_for_each_login(text: str) -> None:
    fetched: list[str] = []

    class Source:
        def fetch(self) -> str:
            fetched.append(text)
            return text

    user = Bearer(Source(), {}, lambda: NOW_MS)
    assert user.message() == user.message()
    assert len(fetched) == 2


def test_an_oauthbearer_login_succeeds_against_our_own_server(tmp_path: Path) -> None:
    options = (
        'unsecuredLoginStringClaim_user="alice" unsecuredLoginPrincipalClaimName=user '
        'unsecuredLoginListClaim_scope="|all|more" unsecuredLoginNumberClaim_n="5" unsecuredLoginLifetimeSeconds="60"'
    )
    user = bearer(tmp_path, options=options)
    check = UnsecuredCheck(UnsecuredOptions(user_claim="user", scopes=("all",)), lambda: wall_now_ms() + 1_000)
    server = OAuthBearerExchange(check)
    exchange = security.login(user)
    answer = server.evaluate(next(exchange))
    with pytest.raises(StopIteration):
        exchange.send(answer)
    assert (server.is_complete, server.user) == (True, "alice")


def test_a_refused_token_fails_with_the_reason_of_the_server() -> None:
    server = OAuthBearerExchange(UnsecuredCheck(UnsecuredOptions(), lambda: 0))
    exchange = security.login(Bearer(InlineToken("a.b.c"), {}))
    answer = server.evaluate(next(exchange))
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        server.evaluate(exchange.send(answer))


@pytest.mark.parametrize(
    ("line", "options", "sentence"),
    [
        ("", "", "no token: expected sasl.oauthbearer.token.endpoint.url=https://HOST/PATH or file:///PATH"),
        (f"{URL}=ftp://there", "", "is no URL of a file, http or https"),
        (f"{URL}=https://[there", "", "is no URL of a file, http or https"),
        (f"{URL}=https://x:{SECRET}@there/", "", "client.id is missing (or clientId in sasl.jaas.config), for the"),
        (f"{URL}=https://there", "clientId=me", "client.secret is missing (or clientSecret in"),
        (
            f"{URL}=https://there",
            f'clientId=me clientSecret={SECRET} ssl.truststore.type=PEM ssl.truststore.location="/no.pem"',
            "ssl.truststore.location /no.pem cannot be read",
        ),
        ("sasl.login.callback.handler.class=org.example.Mine", "", "is a class of Java that cannot run here"),
        (f"sasl.oauthbearer.jwt.retriever.class={PACKAGE}.JwtBearerJwtRetriever", "", "a class of Java that cannot"),
        ("", "unsecuredLoginLifetimeSeconds=x", "unsecuredLoginLifetimeSeconds is not a whole number"),
        ("", "unsecuredLoginScopeClaimName=x", "unsecuredLoginStringClaim_sub="),
        ("", "unsecuredLoginNumberClaim_sub=x", "unsecuredLoginNumberClaim_sub is not a number"),
        ("", "unsecuredLoginMapClaim_sub=x", "unsecuredLoginMapClaim_sub is not known"),
    ],
)
def test_unusable_oauthbearer_properties_are_refused_in_one_sentence(
    tmp_path: Path, line: str, options: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as said:
        bearer(tmp_path, line, options=options)
    assert sentence in str(said.value)
    assert SECRET not in str(said.value)
    assert "\n" not in str(said.value)


def test_a_missing_jaas_login_module_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(START)
    with pytest.raises(ConfigError, match=f"sasl.jaas.config is missing: {MODULE} required; was expected"):
        security.read(file)


def test_oauthbearer_properties_are_translated_for_librdkafka(tmp_path: Path) -> None:
    def taken(*lines: str, options: str) -> dict[str, str]:
        bearer(tmp_path, *lines, options=options)
        return dict(security.librdkafka(security.read(tmp_path / "client.properties")))

    options = f'clientId="me" clientSecret="{SECRET}" scope="all" extension_a="b" extension_c="d"'
    assert taken(f"{URL}=http://there/token", options=options) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://there/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "all",
        "sasl.oauthbearer.extensions": "a=b,c=d",
    }
    assert taken(options='unsecuredLoginStringClaim_sub="me"') == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=me lifeSeconds=3600",
    }
    with pytest.raises(ConfigError, match="this token is not for `muster analyze`"):
        taken(options=f'oauth.access.token="{SECRET}"')
