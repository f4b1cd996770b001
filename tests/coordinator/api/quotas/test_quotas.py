"""Quotas as clients set and describe them: each answer is Kafka's, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.coordinator.api import client_quotas, many_rows
from muster.coordinator.server import Server
from muster.protocol.errors import ErrorCode
from tests.coordinator.api.quotas.exchanges import ALICE, EXCHANGES, RATE, alter, ask, change, kafkas, values_of
from tests.support.muster import connected, running


async def test_every_answer_about_quotas_equals_kafkas() -> None:
    async with running() as server, connected(server) as client:
        answers = [values_of(await client.ask(exchange.request, exchange.version)) for exchange in EXCHANGES]
    for exchange, answer, known in zip(EXCHANGES, answers, kafkas(), strict=True):
        assert answer == known, exchange.name


async def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    pair = (("client-id", None), ("user", "bob"))
    async with running(data_dir=tmp_path) as server, connected(server) as client:
        await client.ask(alter(change(ALICE, (RATE, 1024.0)), change(pair, ("request_percentage", 12.5))))
        await client.ask(alter(change(ALICE, ("consumer_byte_rate", 2048.0), (RATE, None))))
    async with running(data_dir=tmp_path) as server, connected(server) as client:
        assert values_of(await client.ask(ask()))[2] == [
            [[["user", "alice"]], [["consumer_byte_rate", "2048.0"]]],
            [[["client-id", None], ["user", "bob"]], [["request_percentage", "12.5"]]],
        ]


async def test_the_number_of_quota_entities_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 2)
    async with running() as server, connected(server) as client:
        long = "x" * (client_quotas.MAX_NAME_BYTES + 1)
        names = ("a", "b", "c", long)
        answer = await client.ask(alter(*[change((("user", name),), (RATE, 1.0)) for name in names]))
        errors = {row.entity[0].entity_name: row.error_code for row in answer.entries}
        assert [errors[name] for name in names] == [0, 0, *[ErrorCode.INVALID_REQUEST] * 2]
        again = alter(change((("user", "a"),), (RATE, None)), change((("user", "c"),), (RATE, 1.0)))
        refused = {row.entity[0].entity_name: row.error_code for row in (await client.ask(again)).entries}
        assert refused == {"a": 0, "c": ErrorCode.INVALID_REQUEST}
        assert (await client.ask(alter(change((("user", "c"),), (RATE, 1.0))))).entries[0].error_code == 0


async def test_the_types_and_changes_of_a_quota_entity_are_limited() -> None:
    async with running() as server, connected(server) as client:
        many = [(f"x{index}", "y") for index in range(101)]
        rows = [change(many, (RATE, 1.0)), change(ALICE, *[(f"x{index}", None) for index in range(101)])]
        answer = await client.ask(alter(*rows))
        assert [(row.error_code, len(row.entity)) for row in answer.entries] == [
            (ErrorCode.INVALID_REQUEST, 100), (ErrorCode.INVALID_REQUEST, 1),
        ]  # fmt: skip


async def test_hosts_that_cannot_be_resolved_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(host: str) -> str | None:
        asked.append(host)
        return "10.0.0.1" if host == "known.example" else None

    monkeypatch.setattr(client_quotas, "resolve", resolve)
    async with running() as server, connected(server) as client:
        rows = [
            change((("ip", name),), ("connection_creation_rate", 5.0))
            for name in ("known.example", "unknown.example", "::1")
        ]
        answer = await client.ask(alter(*rows))
    assert [row.error_message for row in answer.entries] == [
        None, "unknown.example is not a valid IP or resolvable host.", None,
    ]  # fmt: skip
    assert asked == ["known.example", "unknown.example"]


async def test_a_quota_change_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    async with running(data_dir=tmp_path) as server, connected(server) as client:
        break_disk(server)
        answer = await client.ask(alter(change(ALICE, (RATE, 1.0))))
        assert [row.error_code for row in answer.entries] == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert values_of(await client.ask(ask()))[2] == []


def break_disk(server: Server) -> None:
    server.topics.metadata_log.log.go_offline("a test", OSError("the disk is gone"))


async def test_an_answer_about_quotas_has_a_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as server, connected(server) as client:
        rows = [change((("user", f"user-{number}"),), (RATE, 1.0)) for number in range(20)]
        await client.ask(alter(*rows))
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (500,))
        answer = await client.ask(ask())
        assert (answer.error_code, answer.error_message) == (many_rows.TOO_LARGE, many_rows.TOO_LARGE_TEXT)
        assert not answer.entries
        assert (await client.ask(ask(("user", 0, "user-7")))).error_code == 0
