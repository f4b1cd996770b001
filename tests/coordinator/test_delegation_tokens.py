"""Delegation tokens on a server in this process: the story, what is kept of them, and limits that Kafka does not
have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.api.security import delegation_tokens as handlers
from muster.coordinator.security.sasl import delegation_tokens as core
from muster.coordinator.security.sasl.delegation_tokens import DelegationTokens
from muster.coordinator.security.sasl.scram import MECHANISMS
from muster.coordinator.server import Server
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from muster.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from muster.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from muster.protocol.messages.metadata_records.delegation_token_record import DelegationTokenRecord
from muster.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.coordinator.token_story import EXPECTED, PROPERTIES, Story
from tests.support.muster import Client, connected, running, until

LISTENERS = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"}


@asynccontextmanager
async def alice_of(server: Server, user: str = "alice") -> AsyncIterator[Client]:
    async with connected(server) as client:
        await client.ask(SaslHandshakeRequest("PLAIN"))
        answer = await client.ask(SaslAuthenticateRequest(f"\0{user}\0{user}-pw".encode()))
        assert answer.error_code == 0
        yield client


async def test_the_story_of_delegation_tokens_has_kafkas_answers() -> None:
    async def settle() -> None:
        await asyncio.sleep(0)

    async with running({**PROPERTIES, **LISTENERS}) as server:
        sasl, plain = (bound.port for bound in server.bound)
        assert await Story(plain, sasl, settle).play() == EXPECTED


async def test_delegation_tokens_survive_a_restart_and_expire(tmp_path: Path) -> None:
    properties = {**PROPERTIES, **LISTENERS, "delegation.token.expiry.check.interval.ms": "1"}
    async with running(properties, data_dir=tmp_path) as server, alice_of(server) as client:
        kept = await client.ask(CreateDelegationTokenRequest("", "", [CreatableRenewers("User", "bob")], -1))
        (record,) = server.topics.state.tokens.values()
        assert (record.owner, record.requester, record.renewers) == ("User:alice", "User:alice", ["User:bob"])
    async with running(properties, data_dir=tmp_path) as server, alice_of(server, "bob") as client:
        (row,) = (await client.ask(DescribeDelegationTokenRequest(None))).tokens
        assert (row.token_id, row.hmac, row.expiry_timestamp) == (kept.token_id, kept.hmac, kept.expiry_timestamp_ms)
        short = await client.ask(CreateDelegationTokenRequest("", "", (), 1))
        assert short.error_code == 0
        await until(lambda: list(server.topics.state.tokens) == [kept.token_id], 1_000_000)
        answer = await client.ask(RenewDelegationTokenRequest(short.hmac, -1))
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_delegation_tokens_are_refused_without_a_secret_key() -> None:
    properties = {**PROPERTIES, **LISTENERS}
    del properties["delegation.token.secret.key"]
    async with running(properties) as server, alice_of(server) as client:
        requests: list[Any] = [
            CreateDelegationTokenRequest(), RenewDelegationTokenRequest(b"x"), DescribeDelegationTokenRequest(None),
        ]  # fmt: skip
        for request in requests:
            assert (await client.ask(request)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


async def test_the_names_in_all_delegation_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred renewers had names of a kilobyte: a thousand such tokens took 106 MB."""
    monkeypatch.setattr(handlers, "MAX_CHARACTERS", 250_000)
    async with running({**PROPERTIES, **LISTENERS}) as server, alice_of(server) as client:
        renewers = [CreatableRenewers("User", str(number).ljust(1_024, "r")) for number in range(100)]
        answers = [await client.ask(CreateDelegationTokenRequest("", "", renewers, -1)) for _ in range(3)]
        assert [one.error_code for one in answers] == [0, 0, ErrorCode.POLICY_VIOLATION]
        assert answers[2].expiry_timestamp_ms == -1
        assert server.topics.state.token_characters == 2 * (100 * (1_024 + 5) + 2 * len("User:alice"))
        assert (await client.ask(ExpireDelegationTokenRequest(answers[0].hmac, -1))).error_code == 0
        assert (await client.ask(CreateDelegationTokenRequest("", "", renewers, -1))).error_code == 0


async def test_delegation_tokens_are_limited_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "MAX_TOKENS", 1)
    async with running({**PROPERTIES, **LISTENERS}) as server, alice_of(server) as client:
        renewers = [CreatableRenewers("User", f"u{number}") for number in range(101)]
        answer = await client.ask(CreateDelegationTokenRequest("", "", renewers, -1))
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        answer = await client.ask(CreateDelegationTokenRequest("", "", [CreatableRenewers("User", "u" * 1025)], -1))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        for code in 0, ErrorCode.POLICY_VIOLATION:
            answer = await client.ask(CreateDelegationTokenRequest("", "", renewers[:100], (1 << 63) - 1))
            assert answer.error_code == code


def test_credentials_of_delegation_tokens_are_cached_and_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MAX_KEPT", 2)
    there = {
        f"t{number}": DelegationTokenRecord("User:a:b", "User:c", (), 1, 9, 5, f"t{number}") for number in range(3)
    }
    tokens = DelegationTokens("s", lambda: there, max_lifetime_ms=1, renewal_ms=1)
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    first = tokens.credential(mechanism, "t0", b"salt", 4096)
    assert first is not None
    assert (first.owner, first.expires_ms) == ("a:b", 5)
    again = tokens.credential(mechanism, "t0", b"salt", 4096)
    assert again is not None
    assert again.credential is first.credential
    for name in there:
        assert tokens.credential(mechanism, name, b"salt", 4096) is not None
    assert len(tokens._credentials) <= 2
    hmac = tokens.hmac_of("t1")
    assert tokens.of_hmac(hmac) is there["t1"]
    del there["t1"]
    assert tokens.of_hmac(hmac) is None
    assert tokens.credential(mechanism, "t1", b"salt", 4096) is None
