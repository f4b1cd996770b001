"""Delegation tokens from creation to expiration, used by five users: the expected answer to each step.

`tests/coordinator/test_delegation_tokens.py` plays the story on Muster, and
`tests/conformance/test_delegation_tokens.py` on a real Kafka too.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from muster.protocol.errors import error_name
from muster.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from muster.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from muster.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from muster.protocol.messages.metadata import MetadataRequest
from muster.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.coordinator.security.sasl.test_mechanisms import Client as Scram
from tests.support.muster import Client

SECRET = "the servers' secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = ("admin", "alice", "bob", "carol")
PROPERTIES = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config":
        f"{PLAIN} required " + " ".join(f'user_{name}="{name}-pw"' for name in USERS) + ";",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    "connection.failed.authentication.delay.ms": "0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": SECRET,
    "delegation.token.max.lifetime.ms": "1000000",
    "delegation.token.expiry.time.ms": "600000",
}  # fmt: skip
FAILED = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
Told = dict[str, Any]
CREATED = {"error": "NONE", "lives": (600_000, 1_000_000), "hmac": True}
NOT_ALLOWED = {"error": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"}
EXPECTED: Told = {
    "created without a name": NOT_ALLOWED | {"owner": "User:ANONYMOUS", "by": "User:ANONYMOUS", "times": (-1, -1, -1)},
    "told without a name": (NOT_ALLOWED["error"], []),
    "alice's": CREATED | {"owner": "User:alice", "by": "User:alice"},
    "a renewer that is no user": {"error": "INVALID_PRINCIPAL_TYPE", "owner": "User:alice", "by": "User:alice",
                                  "times": (-1, -1, -1)},
    "alice's for bob": {"error": "DELEGATION_TOKEN_AUTHORIZATION_FAILED", "owner": "User:bob", "by": "User:alice",
                        "times": (-1, -1, -1)},
    "admin's for bob": CREATED | {"owner": "User:bob", "by": "User:admin", "lives": (50_000, 50_000)},
    "told to alice": ("NONE", ["alice's"]),
    "told to bob": ("NONE", ["admin's for bob", "alice's"]),
    "told to carol": ("NONE", []),
    "told to admin": ("NONE", ["admin's for bob", "alice's"]),
    "alice's told to bob": ("NONE", ["alice's"]),
    "of nobody told to bob": ("NONE", []),
    "renewed by bob": ("NONE", 5_000),
    "renewed by alice": ("NONE", 600_000),
    "renewed for too long": ("NONE", 600_000),
    "renewed by carol": ("DELEGATION_TOKEN_OWNER_MISMATCH", 0),
    "renewed by who asked for it": ("DELEGATION_TOKEN_OWNER_MISMATCH", 0),
    "renewed, but there is none": ("DELEGATION_TOKEN_NOT_FOUND", 0),
    "SCRAM-SHA-256": (None, 600_000),
    "SCRAM-SHA-512": (None, 600_000),
    "whose it is": "alice",
    "with another password": (f"{FAILED} SCRAM-SHA-256", 0),
    "without the extension": (f"{FAILED} SCRAM-SHA-256", 0),
    "an id that there is not": (f"{FAILED} SCRAM-SHA-256", 0),
    "another authorization id": (
        "Authentication failed: Client requested an authorization id that is different from username", 0),
    "created by a token": NOT_ALLOWED | {"owner": "User:alice", "by": "User:alice", "times": (-1, -1, -1)},
    "told by a token": (NOT_ALLOWED["error"], []),
    "renewed by a token": (NOT_ALLOWED["error"], -1),
    "ended by a token": (NOT_ALLOWED["error"], -1),
    "a short one": CREATED | {"owner": "User:alice", "by": "User:alice", "lives": (1, 1)},
    "renewed too late": ("DELEGATION_TOKEN_EXPIRED", 0),
    "ended too late": ("DELEGATION_TOKEN_EXPIRED", 0),
    "shown too late": (None, 0),
    "then asked": "closed",
    "ended by carol": ("DELEGATION_TOKEN_OWNER_MISMATCH", 0),
    "ended in a while": ("NONE", 100_000),
    "ended now": ("NONE", 0),
    "ended again": ("DELEGATION_TOKEN_NOT_FOUND", 0),
    "shown after its end": (f"{FAILED} SCRAM-SHA-256", 0),
    "left": ("NONE", ["a short one", "admin's for bob"]),
}  # fmt: skip


class Story:
    """Plays the story. `plain_port` is that of a PLAINTEXT listener, `sasl_port` that of the other listener. `settle`
    is awaited after each change.
    """

    def __init__(self, plain_port: int, sasl_port: int, settle: Callable[[], Awaitable[None]]) -> None:
        self._plain_port = plain_port
        self._sasl_port = sasl_port
        self._settle = settle
        self._tokens: dict[str, Any] = {}
        self.reported: Told = {}

    @asynccontextmanager
    async def _connected(self, port: int) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield Client(reader, writer, "story")
        finally:
            writer.close()

    @asynccontextmanager
    async def _as(self, user: str) -> AsyncIterator[Client]:
        async with self._connected(self._sasl_port) as client:
            await client.ask(SaslHandshakeRequest("PLAIN"))
            answer = await client.ask(SaslAuthenticateRequest(f"\0{user}\0{user}-pw".encode()))
            assert answer.error_code == 0
            yield client

    async def _create(self, client: Client, name: str, *renewers: str, owner: str = "", life_ms: int = -1) -> None:
        rows = [CreatableRenewers(*one.split(":")) for one in renewers]
        kind = "User" if owner else ""
        answer = await client.ask(CreateDelegationTokenRequest(kind, owner, rows, life_ms))
        reported: Told = {
            "error": error_name(answer.error_code),
            "owner": f"{answer.principal_type}:{answer.principal_name}",
            "by": f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
        }
        began_ms = answer.issue_timestamp_ms
        if answer.error_code:
            reported["times"] = began_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms
        else:
            self._tokens[name] = answer
            reported["lives"] = answer.expiry_timestamp_ms - began_ms, answer.max_timestamp_ms - began_ms
            reported["hmac"] = answer.hmac == hmac.digest(SECRET.encode(), answer.token_id.encode(), hashlib.sha512)
            await self._settle()
        self.reported[name] = reported

    async def _describe(self, client: Client, name: str, *owners: str, everybody: bool = True) -> None:
        rows = None if everybody else [DescribeDelegationTokenOwner("User", one) for one in owners]
        answer = await client.ask(DescribeDelegationTokenRequest(rows))
        names = {made.token_id: name for name, made in self._tokens.items()}
        for row in answer.tokens:
            assert row.hmac == self._tokens[names[row.token_id]].hmac
        self.reported[name] = error_name(answer.error_code), sorted(names[row.token_id] for row in answer.tokens)

    async def _change(self, client: Client, name: str, request: Any) -> None:
        answer = await client.ask(request)
        ends_ms = answer.expiry_timestamp_ms
        if answer.error_code == 0:
            left_ms = ends_ms - time.time() * 1000
            # as requested, except for the time that the request took
            ends_ms = next((ms for ms in (0, 5_000, 100_000, 600_000) if -4_500 < left_ms - ms < 4_500), left_ms)
            await self._settle()
        self.reported[name] = error_name(answer.error_code), ends_ms

    async def _show(
        self, client: Client, name: str, token: str, mechanism: str = "SCRAM-SHA-256", password: str = "",
        *, extension: str = ",tokenauth=TRUE", other_id: str = "", authorization_id: str = "",
    ) -> None:  # fmt: skip
        made = self._tokens[token]
        await client.ask(SaslHandshakeRequest(mechanism))
        scram = Scram(mechanism, other_id or made.token_id, password or base64.b64encode(made.hmac).decode(),
                      extension=extension)  # fmt: skip
        answer = await client.ask(SaslAuthenticateRequest(scram.first(authorization_id)))
        if answer.error_code == 0:
            answer = await client.ask(SaslAuthenticateRequest(scram.final(answer.auth_bytes)))
        reported = answer.error_message if answer.error_code else None
        left_ms = answer.session_lifetime_ms
        self.reported[name] = reported, round(left_ms / 20_000) * 20_000

    async def play(self) -> Told:
        """Play the whole story."""
        async with self._connected(self._plain_port) as client:
            await self._create(client, "created without a name")
            await self._describe(client, "told without a name")
        async with self._as("alice") as alice, self._as("bob") as bob, self._as("carol") as carol:
            async with self._as("admin") as admin:
                await self._create(alice, "alice's", "User:bob")
                await self._create(alice, "a renewer that is no user", "Group:bob")
                await self._create(alice, "alice's for bob", owner="bob")
                await self._create(admin, "admin's for bob", owner="bob", life_ms=50_000)
                for name, client in ("alice", alice), ("bob", bob), ("carol", carol), ("admin", admin):
                    await self._describe(client, f"told to {name}")
                await self._describe(bob, "alice's told to bob", "alice", everybody=False)
                await self._describe(bob, "of nobody told to bob", everybody=False)
                await self._renew(bob, alice, carol, admin)
            await self._shown()
            await self._create(alice, "a short one", life_ms=1)
            await asyncio.sleep(0.01)
            short, made = self._tokens["a short one"].hmac, self._tokens["alice's"].hmac
            await self._change(alice, "renewed too late", RenewDelegationTokenRequest(short, -1))
            await self._change(alice, "ended too late", ExpireDelegationTokenRequest(short, 5_000))
            async with self._connected(self._sasl_port) as client:
                await self._show(client, "shown too late", "a short one")
                client.send(MetadataRequest([]), 12)
                self.reported["then asked"] = "closed" if await client.closed() else ""
            await self._change(carol, "ended by carol", ExpireDelegationTokenRequest(made, -1))
            await self._change(bob, "ended in a while", ExpireDelegationTokenRequest(made, 100_000))
            await self._change(alice, "ended now", ExpireDelegationTokenRequest(made, -1))
            await self._change(alice, "ended again", ExpireDelegationTokenRequest(made, -1))
            async with self._connected(self._sasl_port) as client:
                await self._show(client, "shown after its end", "alice's")
            async with self._as("admin") as admin:
                await self._describe(admin, "left")
        return self.reported

    async def _renew(self, bob: Client, alice: Client, carol: Client, admin: Client) -> None:
        made, bobs = self._tokens["alice's"].hmac, self._tokens["admin's for bob"].hmac
        await self._change(bob, "renewed by bob", RenewDelegationTokenRequest(made, 5_000))
        await self._change(alice, "renewed for too long", RenewDelegationTokenRequest(made, 700_000))
        await self._change(alice, "renewed by alice", RenewDelegationTokenRequest(made, -1))
        await self._change(carol, "renewed by carol", RenewDelegationTokenRequest(made, -1))
        await self._change(admin, "renewed by who asked for it", RenewDelegationTokenRequest(bobs, -1))
        await self._change(bob, "renewed, but there is none", RenewDelegationTokenRequest(b"x", -1))

    async def _shown(self) -> None:
        for name, more in {
            "SCRAM-SHA-512": {"mechanism": "SCRAM-SHA-512"},
            "with another password": {"password": "x"},
            "without the extension": {"extension": ""},
            "an id that there is not": {"other_id": "x"},
            "another authorization id": {"authorization_id": "a=alice"},
        }.items():
            async with self._connected(self._sasl_port) as client:
                await self._show(client, name, "alice's", **more)
        async with self._connected(self._sasl_port) as client:
            await self._show(client, "SCRAM-SHA-256", "alice's")
            made = self._tokens["alice's"]
            await self._create(client, "created by a token")
            self.reported["whose it is"] = self.reported["created by a token"]["owner"].removeprefix("User:")
            await self._describe(client, "told by a token")
            await self._change(client, "renewed by a token", RenewDelegationTokenRequest(made.hmac, -1))
            await self._change(client, "ended by a token", ExpireDelegationTokenRequest(made.hmac, -1))
