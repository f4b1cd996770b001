"""A server with TLS in this process: who its clients are, certificates that change, and what is kept secret."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.config import ConfigError, load
from muster.coordinator.security.authorizer import AllowAll, Requester
from muster.coordinator.server import Server
from muster.coordinator.server.nodes import running_node
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.certificates import Authority
from tests.support.muster import Client, running, until

AUTHORITY = Authority("CN=Authority")
BROKER = 4


class Questions(AllowAll):
    """Allows everything, and keeps who asked."""

    def __init__(self) -> None:
        super().__init__()
        self.principals: list[str] = []

    def allows(self, requester: Requester, operation: int, resource_type: int, name: str) -> bool:
        self.principals.append(str(requester.principal))
        return True


class World:
    """A file with the server's key, and clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = folder / "server.pem"
        AUTHORITY.signed("CN=server", host="localhost").pem(self.key)

    def properties(self, **more: str) -> dict[str, str]:
        return {
            "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "listener.name.ssl.ssl.keystore.location": str(self.key),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": AUTHORITY.pem,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def context(self, subject: str | None = None, authority: Authority = AUTHORITY) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=AUTHORITY.pem)
        if subject is not None:
            path = self.folder / "client.pem"
            authority.signed(subject).pem(path)
            context.load_cert_chain(path)
        return context

    @asynccontextmanager
    async def client(self, server: Server, context: ssl.SSLContext | None) -> AsyncIterator[Client]:
        """A client of the TLS listener, or without a context of the other listener."""
        bound = server.bound[0 if context is not None else 1]
        name = None if context is None else "localhost"
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port, ssl=context, server_hostname=name)
        try:
            yield Client(reader, writer, "test")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def principal(world: World, server: Server, context: ssl.SSLContext | None) -> str:
    questions = server.node.authorizer = Questions()
    async with world.client(server, context) as client:
        await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    return questions.principals[-1]


async def test_a_clients_principal_comes_from_its_certificate(world: World) -> None:
    rules = "RULE:^CN=([^,]+),OU=Apps.*$/$1/L,DEFAULT"
    async with running(world.properties(ssl_client_auth="requested", ssl_principal_mapping_rules=rules)) as server:
        assert await principal(world, server, world.context("CN=Pay,OU=Apps")) == "User:pay"
        assert await principal(world, server, world.context("CN=Pay,O=Others")) == "User:CN=Pay,O=Others"
        assert await principal(world, server, world.context()) == "User:ANONYMOUS"
        assert await principal(world, server, None) == "User:ANONYMOUS"


async def test_a_client_without_a_matching_rule_is_closed(world: World) -> None:
    rules = "RULE:^CN=([^,]+),OU=Apps.*$/$1/"
    async with running(world.properties(ssl_client_auth="required", ssl_principal_mapping_rules=rules)) as server:
        with capture_logs() as logs:
            async with world.client(server, world.context("CN=nobody")) as client:
                assert await client.closed()
        assert [line["why"] for line in logs if line["event"] == "closed a connection"] == [
            "the client cannot be named: no rule of ssl.principal.mapping.rules is for this subject"
        ]
        await until(lambda: server.connection_count() == 0)


async def test_a_certificate_of_another_authority_is_refused(world: World) -> None:
    async with running(world.properties(ssl_client_auth="required")) as server:
        with capture_logs() as logs:
            for context in (world.context("CN=evil", Authority("CN=Authority")), world.context()):
                with suppress(OSError):
                    async with world.client(server, context) as client:
                        assert await client.closed()
            await until(lambda: len([line for line in logs if line["event"] == "a TLS handshake failed"]) == 2)


async def test_clients_with_the_wrong_protocol_are_logged_with_advice(world: World) -> None:
    async with running(world.properties()) as server:
        for listener, sent, event in (
            (0, b"\0\0\0\x10" + b"\0\x12" + bytes(14), "a TLS handshake failed"),
            (1, b"\x16\x03\x01\x02\0\x01" + bytes(100), "closed a connection"),
        ):
            with capture_logs() as logs:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.bound[listener].port)
                writer.write(sent)
                with suppress(ConnectionError):
                    assert await reader.read() == b""
                await until(lambda: server.connection_count() == 0)
                writer.close()
            (line,) = logs
            assert line["event"] == event
            assert "security.protocol" in line["why"]


async def test_changed_certificate_files_are_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_node, "RENEWAL_CHECK_MS", 1)
    async with running(world.properties()) as server:
        async with world.client(server, world.context()) as stays:
            with capture_logs() as logs:
                other = Authority("CN=Next")
                other.signed("CN=server", host="localhost").pem(world.key)
                await until(lambda: bool(logs))
            context = ssl.create_default_context(cadata=other.pem)
            async with world.client(server, context) as client:
                assert (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators
            assert (await stays.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators
        with capture_logs() as logs:
            world.key.write_text("nothing")
            await until(lambda: bool(logs))
        assert [line["event"] for line in logs] == ["the new certificates cannot be used, the old ones are kept"]
        async with world.client(server, context) as client:
            assert (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators


def alter(**changes: str) -> IncrementalAlterConfigsRequest:
    rows = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in changes.items()]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", rows)])


async def test_certificates_are_changed_by_a_client_as_on_kafka(world: World) -> None:
    async with running(world.properties()) as server, world.client(server, None) as client:

        async def answered(**changes: str) -> Any:
            return (await client.ask(alter(**changes))).responses[0]

        location = "listener_name_ssl_ssl_keystore_location"
        missing = await answered(**{location: "/no/such/file"})
        assert missing.error_code == 42
        assert "Validation of dynamic config update of SSLFactory failed" in missing.error_message
        other = world.folder / "other.pem"
        AUTHORITY.signed("CN=other", host="localhost").pem(other)
        assert "DistinguishedName does not match" in (await answered(**{location: str(other)})).error_message
        assert (await answered(ssl_keystore_location=str(other))).error_message.startswith("These security configs")
        pair = Authority("CN=Next").signed("CN=server", host="localhost")
        pair.pem(other, "key-secret")
        with capture_logs() as logs:
            done = await answered(**{location: str(other), "listener_name_ssl_ssl_key_password": "key-secret"})
        assert done.error_code == 0
        assert [line["event"] for line in logs if "certificates" in line["event"]] == ["certificates were read anew"]
        async with world.client(server, ssl.create_default_context(cadata=pair.chain_pem)) as changed:
            assert (await changed.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators
        described = await client.ask(DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1")], True))
        rows = {row.name: row for row in described.results[0].configs}
        hidden = rows["listener.name.ssl.ssl.key.password"]
        assert (hidden.value, hidden.is_sensitive, [one.value for one in hidden.synonyms]) == (None, True, [None])
        assert rows[location.replace("_", ".")].value == str(other)
        assert rows["ssl.truststore.certificates"].value is None
        assert "key-secret" not in str(logs)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["listeners=SSL://:1"], "listener SSL: ssl.keystore.location is missing"),
        (
            ["listeners=SSL://:1", "listener.name.sll.ssl.keystore.location=x"],
            "listener.name.sll.ssl.keystore.location: sll is not the name of a listener; there are",
        ),
        (
            ["listener.name.PLAINTEXT.ssl.keystore.location=x"],
            "listener.name.PLAINTEXT.ssl.keystore.location: write the",
        ),
        (
            ["listeners=SSL://:1", "ssl.engine.factory.class=org.example.Mine"],
            "ssl.engine.factory.class=org.example.Mine is a class of Java, which cannot run here",
        ),
        (["inter.broker.listener.name=SSL"], "inter.broker.listener.name: SSL is not among the names of listeners"),
        (
            ["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"],
            "inter.broker.listener.name and security.inter.broker.protocol are both given",
        ),
    ],
)
def test_wrong_tls_properties_refuse_the_start(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(overrides=overrides)
    assert str(caught.value).startswith(sentence)
