"""A server with SASL in this process: requests before an authentication, the end after a failure, sessions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.cli.serve_messages import files_of_others
from muster.coordinator.api.security import sasl as handlers
from muster.coordinator.config import ConfigError, load
from muster.coordinator.net import authentication_gate
from muster.coordinator.net.authentication_gate import ReauthenticationTimer
from muster.coordinator.security.sasl.scram import MECHANISMS
from muster.coordinator.server import Server
from muster.protocol.message import Message
from muster.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.coordinator.security.sasl.test_mechanisms import SALT
from tests.coordinator.security.sasl.test_mechanisms import Client as ScramClient
from tests.coordinator.test_secure_listeners import Questions
from tests.support.muster import Client, connected, running, until

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN_MODULE} required user_alice="a secret" user_bob="b";'
PROPERTIES = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "1",
}
FIND = FindCoordinatorRequest(coordinator_keys=["g"])
SOFTWARE = ApiVersionsRequest("test", "1")


@asynccontextmanager
async def client_of(**more: str) -> AsyncIterator[tuple[Server, Client]]:
    properties = {**PROPERTIES, **{name.replace("_", "."): value for name, value in more.items()}}
    async with running(properties) as server, connected(server) as client:
        yield server, client


async def plain(client: Client, user: str = "alice", password: str = "a secret") -> Any:
    assert (await client.ask(SaslHandshakeRequest("PLAIN"))).error_code == 0
    return await client.ask(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()))


async def scram(client: Client, name: str, user: str, password: str) -> Any:
    assert (await client.ask(SaslHandshakeRequest(name))).error_code == 0
    other = ScramClient(name, user, password)
    challenge = await client.ask(SaslAuthenticateRequest(other.first()))
    assert challenge.error_code == 0
    answer = await client.ask(SaslAuthenticateRequest(other.final(challenge.auth_bytes)))
    assert answer.error_code != 0 or answer.auth_bytes == other.verifier
    return answer


def added(user: str, password: str, iterations: int = 4096) -> AlterUserScramCredentialsRequest:
    rows = [
        ScramCredentialUpsertion(user, one.type, iterations, SALT, one.salted(password, SALT, iterations))
        for one in MECHANISMS.values()
    ]
    return (
        AlterUserScramCredentialsRequest((), rows[:1])
        if user == "one"
        else AlterUserScramCredentialsRequest((), rows[1:])
    )


async def test_plain_authenticates_over_tcp() -> None:
    async with client_of() as (server, client):
        assert (await client.ask(SOFTWARE)).error_code == 0
        answer = await plain(client)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
        questions = server.node.authorizer = Questions()
        assert (await client.ask(FIND)).coordinators[0].error_code == 0
        assert set(questions.principals) == {"User:alice"}


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_version_of_sasl_authenticate_works(version: int) -> None:
    async with client_of() as (_, client):
        assert list((await client.ask(SaslHandshakeRequest("PLAIN"), 1)).mechanisms) == ["PLAIN", *MECHANISMS]
        assert (await client.ask(SaslAuthenticateRequest(b"\0alice\0a secret"), version)).error_code == 0
        assert (await client.ask(FIND)).coordinators


async def test_raw_tokens_after_sasl_handshake_0_work() -> None:
    """Raw tokens follow SaslHandshake 0."""
    async with client_of() as (server, client):
        assert (await client.ask(SaslHandshakeRequest("PLAIN"), 0)).error_code == 0
        client.writer.write(len(b"\0bob\0b").to_bytes(4, "big") + b"\0bob\0b")
        assert await client.reader.readexactly(4) == bytes(4)
        questions = server.node.authorizer = Questions()
        assert (await client.ask(FIND)).coordinators
        assert questions.principals[-1] == "User:bob"
    async with client_of() as (_, client):
        await client.ask(SaslHandshakeRequest("PLAIN"), 0)
        client.writer.write(len(b"\0bob\0x").to_bytes(4, "big") + b"\0bob\0x")
        with capture_logs() as logs:
            assert await client.closed()
        assert [line["why"] for line in logs] == ["the authentication failed"]


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "a secret")])
async def test_a_rejected_client_is_answered_late_and_closed(user: str, password: str) -> None:
    async with client_of(connection_failed_authentication_delay_ms="50") as (server, client):
        before = server.clock.mono_ms()
        with capture_logs() as logs:
            answer = await plain(client, user, password)
            assert server.clock.mono_ms() - before >= 50
            reported = "Authentication failed: Invalid username or password"
            assert (answer.error_code, answer.error_message) == (58, reported)
            assert await client.closed()
        (line,) = logs
        assert (line["why"], line["mechanism"], line["because"]) == ("the authentication failed", "PLAIN", reported)
        assert password not in str(logs)


async def test_a_mechanism_that_is_not_enabled_is_refused() -> None:
    async with client_of(sasl_enabled_mechanisms="PLAIN") as (_, client):
        answer = await client.ask(SaslHandshakeRequest("SCRAM-SHA-256"))
        assert (answer.error_code, list(answer.mechanisms)) == (33, ["PLAIN"])
        assert await client.closed()


@pytest.mark.parametrize("sent", [FIND, SaslAuthenticateRequest(b"\0alice\0a secret")])
async def test_other_requests_before_authentication_close_the_connection(sent: Message) -> None:
    async with client_of() as (_, client):
        client.send(sent)
        assert await client.closed()


async def test_other_requests_during_authentication_close_the_connection() -> None:
    for sent in (FIND, SOFTWARE, SaslHandshakeRequest("PLAIN")):
        async with client_of() as (_, client):
            await client.ask(SaslHandshakeRequest("PLAIN"))
            client.send(sent)
            assert await client.closed()


async def test_authentication_is_limited_in_requests_time_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_of() as (_, client):
        for _ in range(authentication_gate.MAX_REQUESTS):
            await client.ask(SOFTWARE)
        client.send(SOFTWARE)
        assert await client.closed()
    async with client_of(sasl_server_max_receive_size="100") as (_, client):
        await client.ask(SaslHandshakeRequest("PLAIN"))
        client.send(SaslAuthenticateRequest(b"\0alice\0" + bytes(100)))
        assert await client.closed()
    monkeypatch.setattr(authentication_gate, "MAX_AUTHENTICATION_MS", 20)
    async with client_of() as (_, client):
        with capture_logs() as logs:
            assert await client.closed()
        assert "has not authenticated within" in logs[0]["why"]


@pytest.mark.parametrize("name", MECHANISMS)
async def test_scram_authenticates_users_set_by_clients(name: str, tmp_path: Path) -> None:
    user = "one" if name == "SCRAM-SHA-256" else "two"
    async with running(PROPERTIES, data_dir=tmp_path) as server:
        async with connected(server) as client:
            await plain(client)
            (row,) = (await client.ask(added(user, "päss"))).results
            assert (row.user, row.error_code) == (user, 0)
        async with connected(server) as client:
            assert (await scram(client, name, user, "päss")).error_code == 0
            assert (await client.ask(FIND)).coordinators
    async with running(PROPERTIES, data_dir=tmp_path) as server:
        async with connected(server) as client:
            assert (await scram(client, name, user, "päss")).error_code == 0
            (row,) = (await client.ask(DescribeUserScramCredentialsRequest(None))).results
            assert (row.user, [(one.mechanism, one.iterations) for one in row.credential_infos]) == (
                user, [(MECHANISMS[name].type, 4096)],
            )  # fmt: skip
            gone = [ScramCredentialDeletion(user, MECHANISMS[name].type)]
            assert (await client.ask(AlterUserScramCredentialsRequest(gone))).results[0].error_code == 0
        for wrong in (user, "nobody"):
            async with connected(server) as client:
                answer = await scram(client, name, wrong, "päss")
                reported = (
                    f"Authentication failed during authentication due to invalid credentials with SASL mechanism {name}"
                )
                assert (answer.error_code, answer.error_message) == (58, reported)
                assert await client.closed()


async def test_an_expired_session_can_only_be_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "MIN_REAUTH_INTERVAL_MS", 0)
    async with client_of(connections_max_reauth_ms="600000") as (_, client):
        for _ in range(2):
            assert (await plain(client)).session_lifetime_ms == 600_000
            assert (await client.ask(FIND)).coordinators
    async with client_of(connections_max_reauth_ms="1") as (server, client):
        for _ in range(2):
            assert (await plain(client)).session_lifetime_ms == 1
            (connection,) = connections(server)
            await until(lambda connection=connection: type(connection._requests) is ReauthenticationTimer)
        with capture_logs() as logs:
            client.send(FIND)
            assert await client.closed()
        assert "its session is over" in logs[0]["why"]
        await until(lambda: server.connection_count() == 0)


def connections(server: Server) -> tuple[Any, ...]:
    assert server.nodes[0].limits is not None
    return server.nodes[0].limits.connections


async def test_a_client_may_authenticate_again_as_the_same_user_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_of() as (_, client):
        await plain(client)
        assert (await plain(client)).error_code == 0
        assert (await client.ask(SaslHandshakeRequest("PLAIN"))).error_code == 34, "not twice in a second"
        assert (await client.ask(FIND)).coordinators
    monkeypatch.setattr(handlers, "MIN_REAUTH_INTERVAL_MS", 0)
    for user, password, reported in (
        ("bob", "b", "Cannot change principals during re-authentication from User.alice: User.bob"),
        ("alice", "x", "Authentication failed: Invalid username or password"),
    ):
        async with client_of() as (_, client):
            await plain(client)
            answer = await plain(client, user, password)
            assert (answer.error_code, answer.error_message) == (58, reported)
            assert await client.closed()
    async with client_of() as (_, client):
        await plain(client)
        assert (await client.ask(SaslHandshakeRequest("SCRAM-SHA-256"))).error_code == 0
        answer = await client.ask(SaslAuthenticateRequest(b"n,,n=a,r=b"))
        assert answer.error_message == (
            "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism "
            "'PLAIN'"
        )
        assert await client.closed()


async def test_a_token_of_a_reauthentication_is_limited_in_size() -> None:
    """The check of a token of 31 MB would delay the other clients."""
    async with client_of() as (_, client):
        await plain(client)
        answer = await plain(client, password="x" * 600_000)
        assert (answer.error_code, answer.error_message) == (
            58,
            "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN",
        )
        assert await client.closed()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"sasl.enabled.mechanisms": "GSSAPI"},
            "listener SASL_PLAINTEXT: sasl.enabled.mechanisms=GSSAPI has a mechanism",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN_MODULE} required;"},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config names no user, so nobody could authenticate",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_a="hush"'},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config: it does not end in a semicolon; expected",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": 'org.example.Mine required user_a="hush";'},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config names org.example.Mine, which cannot run here",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class": "org.example.Mine"},
            "plain.sasl.server.callback.handler.class=org.example.Mine is a class of Java",
        ),
    ],
)
def test_wrong_sasl_properties_refuse_the_start(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(overrides=[f"{name}={value}" for name, value in {**PROPERTIES, **changes}.items()])
    assert str(caught.value).startswith(sentence)
    assert "hush" not in str(caught.value)


NAME = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


async def alter(client: Client, name: str, value: str) -> tuple[int, str]:
    config = AlterableConfig(name, 0, value)
    answer = await client.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", [config])]))
    return answer.responses[0].error_code, answer.responses[0].error_message or ""


async def comes_in(server: Server, user: str, password: str) -> bool:
    async with connected(server) as client:
        return (await plain(client, user, password)).error_code == 0


async def test_altered_scram_users_apply_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with (
        running(PROPERTIES, data_dir=tmp_path) as server,
        connected(server) as client,
        connected(server) as stays,
    ):
        await plain(client)
        await plain(stays)
        assert await alter(client, NAME, f'{PLAIN_MODULE} required user_eve="new";') == (0, "")
        assert await comes_in(server, "eve", "new")
        assert not await comes_in(server, "alice", "a secret")
        assert (await stays.ask(FIND)).coordinators, "who is there stays"
        assert (await plain(stays)).error_code == 58, "until it authenticates again"
        for value, why in {
            "nonsense hush": "behind the login module one of required",
            f"{PLAIN_MODULE} required;": "names no user",
        }.items():
            code, reported = await alter(client, NAME, value)
            assert code == 42
            assert why in reported
            assert reported.startswith("Invalid value org.apache.kafka.common.config.ConfigException: ")
            assert "hush" not in reported
        assert await comes_in(server, "eve", "new")
        name = "listener.name.sasl_plaintext.sasl.enabled.mechanisms"
        assert await alter(client, name, "SCRAM-SHA-256") == (0, "")
        async with connected(server) as other:
            answer = await other.ask(SaslHandshakeRequest("PLAIN"))
            assert (answer.error_code, list(answer.mechanisms)) == (33, ["SCRAM-SHA-256"])
        assert await alter(client, name, "PLAIN") == (0, "")
    async with running(PROPERTIES, data_dir=tmp_path) as server:
        assert await comes_in(server, "eve", "new")


async def test_a_changed_users_file_is_read_again(tmp_path: Path) -> None:
    def written(text: str, number: int) -> None:
        file.write_text(text)
        os.utime(file, (number, number))

    file = tmp_path / "users"
    written(f'KafkaServer {{ {PLAIN_MODULE} required user_bob="b"; }};', 1)
    properties = {name: value for name, value in PROPERTIES.items() if name != NAME}
    async with running({**properties, "muster.sasl.jaas.file": str(file)}) as server:
        assert await comes_in(server, "bob", "b")
        written(f'sasl_plaintext.KafkaServer {{ {PLAIN_MODULE} required user_eve="e"; }}; KafkaServer {{}};', 2)
        server.nodes[0]._security.renew()
        assert await comes_in(server, "eve", "e")
        assert not await comes_in(server, "bob", "b")
        for number, text in enumerate(["K {", "KafkaServer {};"], 3):
            written(text, number)
            with capture_logs() as logs:
                server.nodes[0]._security.renew()
                server.nodes[0]._security.renew()
            assert [line["event"] for line in logs] == [
                "the SASL settings cannot be changed to this, the old ones are kept"
            ]
            assert await comes_in(server, "eve", "e")
        assert server.nodes[0]._next_check is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff", "cannot be read: it is no text"),
        (b"K { a.M hush };", "behind the login module one of required, requisite, sufficient, optional is expected; "
                           "expected KafkaServer { … };"),
    ],
)  # fmt: skip
def test_an_unreadable_users_file_refuses_the_start(tmp_path: Path, text: bytes | None, why: str) -> None:
    file = tmp_path / "users"
    if text is not None:
        file.write_bytes(text)
    properties = {name: value for name, value in PROPERTIES.items() if name != NAME}
    with pytest.raises(ConfigError) as caught:
        load(
            overrides=[f"{name}={value}" for name, value in {**properties, "muster.sasl.jaas.file": str(file)}.items()]
        )
    assert str(caught.value).startswith(f"muster.sasl.jaas.file {file}")
    assert str(caught.value).endswith(why)
    assert "hush" not in str(caught.value)


async def test_an_unknown_users_salt_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async def first() -> bytes:
        async with running(PROPERTIES, data_dir=tmp_path) as server, connected(server) as client:
            await client.ask(SaslHandshakeRequest("SCRAM-SHA-256"))
            answer = await client.ask(SaslAuthenticateRequest(b"n,,n=nobody,r=abc"))
            return bytes(answer.auth_bytes).partition(b",s=")[2]

    assert await first() == await first()


def test_a_users_file_readable_by_all_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the current folder may have the data of a `make serve`, which causes another warning
    file = tmp_path / "users"
    file.write_text(f'KafkaServer {{ {PLAIN_MODULE} required user_bob="b"; }};')
    properties = {name: value for name, value in PROPERTIES.items() if name != NAME}
    overrides = [f"{name}={value}" for name, value in {**properties, "muster.sasl.jaas.file": str(file)}.items()]
    for mode, warned in (0o644, True), (0o600, False):
        file.chmod(mode)
        reported = files_of_others(load(overrides=overrides), None)
        assert [f"warning: {file} has passwords" in line for line in reported] == [True] * warned


def test_a_data_directory_with_users_open_to_all_is_warned_about(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    overrides = [f"{name}={value}" for name, value in PROPERTIES.items()]
    for mode, warned in (None, False), (0o755, True), (0o750, False), (0o700, False):
        if mode is not None:
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
        reported = files_of_others(load(overrides=overrides, data_dir=folder), None)
        assert [f"warning: {folder} has what users' passwords" in line for line in reported] == [True] * warned
    folder.chmod(0o755)
    assert files_of_others(load(data_dir=folder), None) == []
