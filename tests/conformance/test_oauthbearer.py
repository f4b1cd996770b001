"""A real Kafka and Muster get every token and message of `bearer_cases.py`: both answer as the cases say."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator.security.sasl.bearer_cases import (
    ANYBODY,
    AUDIENCE,
    ISSUER,
    MESSAGES,
    MISSING,
    TOKENS,
    UNSECURED,
    UNSECURED_WITH_OPTIONS,
    Case,
    Keys,
)
from tests.support import wire
from tests.support.servers import KafkaServer, MusterServer, ServerProcess, free_port_pair

HANDLERS = "org.apache.kafka.common.security.oauthbearer"
SECURED = f"{HANDLERS}.OAuthBearerValidatorCallbackHandler"
NOT_SECURED = f"{HANDLERS}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
OPTIONS = (
    'unsecuredValidatorPrincipalClaimName="user" unsecuredValidatorScopeClaimName="roles" '
    'unsecuredValidatorRequiredScope="all more" unsecuredValidatorAllowableClockSkewMs="20000" '
    'unsecuredLoginStringClaim_sub="broker"'
)
Told = tuple[str | None, int]


def listeners(jwks: Path, ports: dict[str, int]) -> dict[str, str]:
    """A listener for each way to check tokens."""
    module = f"{HANDLERS}.OAuthBearerLoginModule required"
    found = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in ports.items() if name != "CONTROLLER"
        ),
        "listener.security.protocol.map": ",".join(
            f"{name}:{'PLAINTEXT' if name in ('PLAINTEXT', 'CONTROLLER') else 'SASL_PLAINTEXT'}" for name in ports
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "0",
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
    }
    for name in ("strict", "open", "short"):
        prefix = f"listener.name.{name}."
        found |= {
            f"{prefix}oauthbearer.sasl.server.callback.handler.class": SECURED,
            f"{prefix}oauthbearer.sasl.jaas.config": f"{module};",
        }
    found |= {
        "listener.name.strict.sasl.oauthbearer.expected.audience": AUDIENCE,
        "listener.name.strict.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.short.connections.max.reauth.ms": "100000",
        "listener.name.unsecured.oauthbearer.sasl.server.callback.handler.class": NOT_SECURED,
        "listener.name.unsecured.oauthbearer.sasl.jaas.config": f"{module};",
        "listener.name.options.oauthbearer.sasl.server.callback.handler.class": NOT_SECURED,
        "listener.name.options.oauthbearer.sasl.jaas.config": f"{module} {OPTIONS};",
    }
    return found


NAMES = ("STRICT", "OPEN", "SHORT", "UNSECURED", "OPTIONS")


class Asked:
    """A server with these listeners."""

    def __init__(self, server: ServerProcess, ports: dict[str, int]) -> None:
        self.server = server
        self.ports = ports

    def tells(self, listener: str, message: str) -> Told:
        """The answer to a client that sends this message first: None if the client is let in. Also the lifetime of its
        session.
        """
        with socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=30) as connection:
            answer = wire.call(connection, wire.Request(17, 1, wire.string("OAUTHBEARER")))
            assert answer.number("h") == 0
            for token in message.encode("latin-1"), b"\1":
                try:
                    answer = wire.call(connection, wire.Request(36, 1, wire.data(token)))
                except EOFError:
                    return "closed", 0
                code, reported, challenge, lifetime = (
                    answer.number("h"), answer.string(), answer.data(), answer.number("q"),
                )  # fmt: skip
                if code == 0 and not challenge:
                    return None, lifetime
                if code:
                    return reported, 0
            raise AssertionError(f"{challenge!r} again")


@pytest.fixture(scope="module")
def keys() -> Keys:
    return Keys()


@pytest.fixture(scope="module", params=["kafka", "muster"])
def asked(request: pytest.FixtureRequest, keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp(str(request.param))
    jwks = folder / "jwks.json"
    jwks.write_text(keys.jwks())
    first = free_port_pair()
    ports = {"PLAINTEXT": first, **{name: first + 2 + at for at, name in enumerate(NAMES)}}
    server: ServerProcess
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "kafka":
            patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}")
            patch.setenv("HEAP", "512M")
            server = KafkaServer(folder, listeners(jwks, {**ports, "CONTROLLER": first + 1}))
            server.bootstrap = f"127.0.0.1:{first}"
        else:
            server = MusterServer(folder, listeners(jwks, ports), in_memory=True)
        server.start()
    yield Asked(server, ports)
    server.stop()


def check(asked: Asked, keys: Keys, listener: str, cases: tuple[Case, ...]) -> dict[str, Told]:
    """The cases with another answer than expected; an accepted case must also have the expected name."""
    wrong: dict[str, Told] = {}
    for case in cases:
        token = keys.token(case, time.time())
        name = f"a={case.user}" if case.reported is None and case.user.isascii() else ""
        reported, lifetime = asked.tells(listener, f"n,{name},\1auth=Bearer {token}\1\1")
        payload = case.payload(time.time())
        expires_s = payload.get("exp", 0) if case.reported is None and isinstance(payload, dict) else 0
        left_ms = max(round((expires_s - time.time()) * 1000), 0)
        if reported != case.reported or abs(lifetime - left_ms) > 5000:
            wrong[case.name] = reported, lifetime
    return wrong


def test_signed_tokens_are_judged_as_recorded(asked: Asked, keys: Keys) -> None:
    assert check(asked, keys, "STRICT", TOKENS) == {}


def test_tokens_without_an_expected_audience_are_judged_as_recorded(asked: Asked, keys: Keys) -> None:
    assert check(asked, keys, "OPEN", ANYBODY) == {}


def test_oauthbearer_messages_are_answered_as_recorded(asked: Asked, keys: Keys) -> None:
    token = keys.token(Case("good"), time.time())
    reported = {one.name: asked.tells("STRICT", one.text.replace("{token}", token))[0] for one in MESSAGES}
    assert reported == {one.name: one.reported for one in MESSAGES}


def test_the_session_lasts_the_shorter_of_two_lifetimes(asked: Asked, keys: Keys) -> None:
    reported, lifetime = asked.tells(
        "SHORT", f"n,,\1auth=Bearer {keys.token(Case('', {'aud': MISSING}), time.time())}\1\1"
    )
    assert (reported, lifetime) == (None, 100_000)


def test_unsecured_tokens_are_judged_as_recorded(asked: Asked, keys: Keys) -> None:
    assert check(asked, keys, "UNSECURED", UNSECURED) == {}
    assert check(asked, keys, "OPTIONS", UNSECURED_WITH_OPTIONS) == {}
