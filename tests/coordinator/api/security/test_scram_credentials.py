"""What an answer about SCRAM users may contain."""

from __future__ import annotations

import pytest

from muster.coordinator.api import many_rows
from muster.coordinator.api.security import scram_credentials
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from muster.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.support.muster import Client, connected, running


async def describe(client: Client, *names: str) -> list[tuple[str, int, str | None]]:
    answer = await client.ask(DescribeUserScramCredentialsRequest([UserName(name) for name in names]))
    assert answer.error_code == 0
    return [(row.user, row.error_code, row.error_message) for row in answer.results]


async def test_each_named_scram_user_has_a_row_until_the_answer_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"nobody-{number}" for number in range(100)]
    async with running() as server, connected(server) as client:
        whole = await describe(client, *names)
        assert whole[0] == (
            "nobody-0",
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: nobody-0",
        )
        monkeypatch.setattr(scram_credentials, "MAX_ANSWER_BYTES", 5_000)
        short = await describe(client, *names)
        assert [row[:2] for row in short] == [row[:2] for row in whole]
        rows_with_reason = [row for row in short if row[2] is not None]
        assert 1 <= len(rows_with_reason) < 50
        assert all(row in whole for row in rows_with_reason)


async def test_a_change_that_makes_too_many_scram_users_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    upsertions = [ScramCredentialUpsertion(f"user-{number}", 1, 4096, b"salt", b"p" * 32) for number in range(20)]
    async with running() as server, connected(server) as client:
        made = await client.ask(AlterUserScramCredentialsRequest([], upsertions))
        assert [row.error_code for row in made.results] == [0] * 20
        answer = await client.ask(DescribeUserScramCredentialsRequest(None))
        assert (answer.error_code, len(answer.results)) == (0, 20)
        monkeypatch.setattr(scram_credentials, "MAX_ANSWER_BYTES", 200)
        answer = await client.ask(DescribeUserScramCredentialsRequest(None))
        rows_with_reason = answer.error_code, answer.error_message, list(answer.results)
        assert rows_with_reason == (many_rows.TOO_LARGE, many_rows.TOO_LARGE_TEXT, [])
        assert await describe(client, "user-1", "user-2") == [("user-1", 0, ""), ("user-2", 0, "")]
