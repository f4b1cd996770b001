"""Effects of rules on requests of a running server, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.coordinator.api.observer import error_counts
from muster.coordinator.api.registry import SERVED
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.sync_group import SyncGroupRequest
from muster.testcontrol.errors import NoSuchFault
from muster.testcontrol.faults.actions import (
    Action,
    Call,
    Cut,
    Delay,
    Error,
    Hold,
    LoseAnswer,
    Throttle,
    Trickle,
)
from muster.testcontrol.faults.engine import EVERYTHING
from muster.testcontrol.faults.matching import FAMILIES, Match, Request
from muster.testcontrol.faults.older_broker import OlderBroker
from muster.testcontrol.faults.rule import once, times, until_released
from muster.testcontrol.server_control import ServerControl
from tests.support.muster import Client, connected, until
from tests.support.share_members import share_member
from tests.testcontrol.faults.samples import request_of
from tests.testcontrol.server import controlled

COMMIT = Match(api="OffsetCommit")
KEYS = dict.fromkeys(key for family in ("groups", "share", "transactions", "records") for key in FAMILIES[family])


@pytest.fixture
async def server() -> AsyncIterator[ServerControl]:
    async with controlled() as found:
        yield found


@pytest.fixture
async def client(server: ServerControl) -> AsyncIterator[Client]:
    async with connected(server.server) as found:
        yield found


def commit(offset: int, group: str = "g") -> OffsetCommitRequest:
    row = OffsetCommitRequestTopic("orders", bytes(16), [OffsetCommitRequestPartition(0, offset)])
    return OffsetCommitRequest(group, -1, "", topics=[row])


def committed(server: ServerControl, group: str = "g") -> int | None:
    return server.groups.describe(group).offsets.get("orders", {}).get(0)


async def commits(client: Client, offset: int, group: str = "g") -> int:
    answer = await client.ask(commit(offset, group), 8)
    return int(answer.topics[0].partitions[0].error_code)


def is_shut(server: ServerControl) -> bool:
    return all(point.intercept is None for point in server.server.intercept_points.values())


async def test_an_error_replaces_the_handler_and_cached_answers(server: ServerControl, client: Client) -> None:
    for offset in range(1, 5):
        assert await commits(client, offset) == 0
    rule = server.faults.add(Match(api="OffsetCommit", group="g"), Error("NOT_COORDINATOR"), times(2), name="gone")
    assert [await commits(client, offset) for offset in (5, 6)] == [ErrorCode.NOT_COORDINATOR] * 2
    assert committed(server) == 4
    assert (rule.hits, rule.turns.seen, rule.is_spent, is_shut(server)) == (2, 2, True, True)
    assert await commits(client, 7) == 0
    assert committed(server) == 7
    first, second = server.faults.log.after()
    assert (first["number"], second["number"], server.faults.log.after(1)) == (1, 2, [second])
    assert first == {
        **first,
        "rule": rule.id, "name": "gone", "api": "OffsetCommit", "version": 8, "client_id": "test", "group": "g",
        "member": None, "node": 1, "principal": "User:ANONYMOUS", "did": "answered NOT_COORDINATOR",
    }  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
async def test_every_api_of_groups_shares_transactions_and_records_can_be_refused(
    server: ServerControl, key: int
) -> None:
    name = api(key).name
    server.faults.add(Match(api=name), Error("COORDINATOR_NOT_AVAILABLE"), once())
    async with connected(server.server) as client:
        answer = await client.ask(request_of(key), SERVED[key].max_version)
    codes = error_counts(key, answer)
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE in codes or "partition_error_code=15" in str(answer)
    assert [hit["api"] for hit in server.faults.log.after()] == [name]


async def test_a_rule_for_a_topic_hits_the_fetch_of_a_share_session(server: ServerControl) -> None:
    async with share_member(server.server, "g", "w", "orders") as member:
        await member.fetch(max_wait_ms=0)
        rule = server.faults.add(Match(api="share", topic="orders", group="g", member="w"), Error("NOT_COORDINATOR"))
        other = server.faults.add(Match(api="ShareFetch", topic="bills"), Error("NOT_COORDINATOR"))
        with pytest.raises(AssertionError, match="error_code=16"):
            await member.fetch(max_wait_ms=0)
        assert (rule.hits, other.hits) == (1, 0)


async def test_a_rule_hits_only_matching_requests(server: ServerControl, client: Client) -> None:
    faults = server.faults
    seen: list[Request] = []

    def keep(request: Request) -> None:
        seen.append(request)

    wrong = [
        Match(api="Fetch"), Match(group="h"), Match(group="h*"), Match(member="m"), Match(instance="i"),
        Match(topic="bills"), Match(transactional_id="t"), Match(client_id="other"), Match(principal="User:a"),
        Match(node=2), Match(min_version=9), Match(max_version=7), Match(predicate=lambda _: False),
        Match(predicate=lambda request: request.message.no_such_field),
    ]  # fmt: skip
    right = [
        EVERYTHING, Match(api="groups"), Match(api=("Fetch", "OffsetCommit")), Match(group="*"),
        Match(group=("h", "g")), Match(topic="ord*s"), Match(client_id="t*t"), Match(principal="User:ANONYMOUS"),
        Match(node=(1, 2)), Match(min_version=8, max_version=8),
        Match(predicate=lambda request: request.groups == ["g"]),
    ]  # fmt: skip
    rules = [faults.add(match, Call(keep)) for match in wrong + right]
    assert await commits(client, 1) == 0
    assert [rule.hits for rule in rules] == [0] * len(wrong) + [1] * len(right)
    assert (seen[0].api, seen[0].topics, seen[0].members, seen[0].version) == ("OffsetCommit", ["orders"], [], 8)
    faults.clear()
    assert (faults.rules, is_shut(server)) == ([], True)


async def test_a_rule_matches_topics_by_id_and_in_a_fetch_session(server: ServerControl, client: Client) -> None:
    metadata = await client.ask(MetadataRequest([MetadataRequestTopic(name="orders")]))
    topic_id = metadata.topics[0].topic_id
    asked = FetchTopic("", topic_id, [FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)])
    opened = await client.ask(FetchRequest(max_wait_ms=0, max_bytes=1000, session_epoch=0, topics=[asked]))
    rule = server.faults.add(Match(topic="orders"), Error("UNKNOWN_SERVER_ERROR"))
    other = server.faults.add(Match(topic="bills"), Error("NOT_COORDINATOR"))
    again = FetchRequest(max_wait_ms=0, max_bytes=1000, session_id=opened.session_id, session_epoch=1)
    assert (await client.ask(again)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await client.ask(FetchRequest(max_wait_ms=0, topics=[asked]))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (rule.hits, other.hits) == (2, 0)


async def test_an_answer_is_lost_after_the_handler_has_finished(server: ServerControl, client: Client) -> None:
    server.faults.add(COMMIT, LoseAnswer(), once())
    client.send(commit(5), 8)
    assert await client.closed()
    assert committed(server) == 5


async def test_a_lost_answer_can_leave_the_connection_open(server: ServerControl, client: Client) -> None:
    server.faults.add(COMMIT, LoseAnswer(cut=False), once())
    client.send(commit(5), 8)
    await until(lambda: committed(server) == 5)
    async with connected(server.server) as other:
        assert await commits(other, 6) == 0
    assert not client.reader.at_eof()


@pytest.mark.parametrize("where", ["before", "middle", "after"])
async def test_a_connection_is_cut_before_or_after_the_handler(
    server: ServerControl, client: Client, where: str
) -> None:
    whole = len(await exchange(client, commit(4)))
    server.faults.add(COMMIT, Cut(where), once())
    client.send(commit(5), 8)
    got = await client.reader.read()
    assert len(got) == {"before": 0, "middle": whole // 2, "after": whole}[where]
    assert committed(server) == (4 if where == "before" else 5)


async def exchange(client: Client, request: Any, version: int = 8) -> bytes:
    """The bytes of an answer."""
    client.send(request, version)
    size = await client.reader.readexactly(4)
    return size + await client.reader.readexactly(int.from_bytes(size, "big"))


async def test_an_answer_is_sent_in_small_pieces(server: ServerControl, client: Client) -> None:
    whole = await exchange(client, commit(4))
    server.faults.add(COMMIT, Trickle(size=3, every_ms=1), once())
    client.send(commit(5), 8)
    parts = []
    while sum(map(len, parts)) < len(whole):
        parts.append(await client.reader.read(100))
    assert len(parts) > 1
    got = b"".join(parts)
    assert (got[:4], got[8:]) == (whole[:4], whole[8:])
    assert await commits(client, 6) == 0


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_held_request_waits_until_the_release(server: ServerControl, client: Client, where: str) -> None:
    rule = server.faults.add(COMMIT, Hold(where), until_released())
    asked = client.send(commit(5), 8)
    await until(lambda: rule.held == 1)
    assert committed(server) == (None if where == "before" else 5)
    assert not rule.is_spent
    server.faults.release(rule.id)
    assert (await client.receive(asked)).topics[0].partitions[0].error_code == 0
    assert (committed(server), rule.held, rule.is_spent, is_shut(server)) == (5, 0, True, True)


async def test_a_closed_connection_is_not_held(server: ServerControl, client: Client) -> None:
    rule = server.faults.add(COMMIT, Hold("before"))
    client.send(commit(5), 8)
    await until(lambda: rule.held == 1)
    client.writer.close()
    await until(lambda: rule.held == 0)
    server.faults.remove(rule.id)
    assert committed(server) is None
    with pytest.raises(NoSuchFault):
        server.faults.remove(rule.id)


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_delayed_request_does_not_delay_others(server: ServerControl, client: Client, where: str) -> None:
    server.faults.add(Match(api="OffsetCommit", group="slow"), Delay(100, where))
    asked = client.send(commit(5, "slow"), 8)
    async with connected(server.server) as other:
        assert await commits(other, 1) == 0
        assert committed(server, "slow") == (None if where == "before" else 5)
        answer = asyncio.ensure_future(client.receive(asked))
        assert not answer.done()
        await answer
    assert committed(server, "slow") == 5


async def test_a_rule_sets_the_throttle_time(server: ServerControl, client: Client) -> None:
    server.faults.add(EVERYTHING, Throttle(1234))
    assert (await client.ask(commit(5), 8)).throttle_time_ms == 1234
    assert committed(server) == 5


async def test_a_throttle_time_ends_with_its_rule(server: ServerControl, client: Client) -> None:
    """The answers to heartbeats of all members are one object, which a rule may not change."""
    protocols = [JoinGroupRequestProtocol("p", b"")]
    join = JoinGroupRequest("beating", 10_000, 10_000, protocol_type="x", protocols=protocols)
    joined = await client.ask(join, 3)
    await client.ask(SyncGroupRequest("beating", joined.generation_id, joined.member_id))
    beat = HeartbeatRequest("beating", joined.generation_id, joined.member_id)
    rule = server.faults.add(EVERYTHING, Throttle(1234))
    assert (await client.ask(beat)).throttle_time_ms == 1234
    server.faults.remove(rule.id)
    assert (await client.ask(beat)).throttle_time_ms == 0


async def test_several_rules_hit_one_request(server: ServerControl, client: Client) -> None:
    server.faults.add(COMMIT, Throttle(7))
    server.faults.add(COMMIT, Error("NOT_COORDINATOR"))
    never = server.faults.add(COMMIT, Call(lambda _: None))
    answer = await client.ask(commit(5), 8)
    assert (answer.throttle_time_ms, answer.topics[0].partitions[0].error_code) == (7, ErrorCode.NOT_COORDINATOR)
    assert never.hits == 1  # although it had nothing to do any more
    assert [hit["did"] for hit in server.faults.log.after()][:2] == [
        "asked to wait for 7 ms (throttle_time_ms)",
        "answered NOT_COORDINATOR",
    ]


class TestOlderBroker:
    async def test_an_older_broker_refuses_a_newer_api_versions(self, server: ServerControl, client: Client) -> None:
        server.faults.add(EVERYTHING, OlderBroker("2.3"))
        _, _, number = client.send(ApiVersionsRequest("c", "1"), 4)
        refused = await client.receive((ApiKey.API_VERSIONS, 0, number))
        assert (refused.error_code, refused.api_keys) == (ErrorCode.UNSUPPORTED_VERSION, [])
        answer = await client.ask(ApiVersionsRequest(), 2)
        most = {row.api_key: row.max_version for row in answer.api_keys}
        assert (most[ApiKey.METADATA], most[ApiKey.JOIN_GROUP], most[ApiKey.API_VERSIONS]) == (8, 5, 2)
        assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in most
        assert ApiKey.OFFSET_DELETE not in most
        client.send(MetadataRequest(), 9)
        assert await client.closed()

    async def test_an_older_broker_lists_its_versions_and_features(self, server: ServerControl, client: Client) -> None:
        rule = server.faults.add(EVERYTHING, OlderBroker("3.9"))
        answer = await client.ask(ApiVersionsRequest("c", "1"), 4)
        assert {one.name: one.max_version_level for one in answer.finalized_features} == {"metadata.version": 21}
        assert {one.name: one.max_version for one in answer.supported_features} == {
            "metadata.version": 21,
            "kraft.version": 1,
        }
        server.faults.remove(rule.id)
        server.faults.add(EVERYTHING, OlderBroker("2.8"))
        answer = await client.ask(ApiVersionsRequest("c", "1"), 3)
        assert (list(answer.finalized_features), answer.finalized_features_epoch) == ([], -1)

    async def test_a_broker_of_4_3_serves_what_4_4_added_to_nobody(self, server: ServerControl, client: Client) -> None:
        server.faults.add(EVERYTHING, OlderBroker("4.3"))
        answer = await client.ask(ApiVersionsRequest("c", "1"), 4)
        most = {row.api_key: row.max_version for row in answer.api_keys}
        newer = (ApiKey.API_VERSIONS, ApiKey.TXN_OFFSET_COMMIT, ApiKey.DELETE_GROUPS)
        assert [most[key] for key in newer] == [4, 5, 2]
        assert {one.name: one.max_version_level for one in answer.finalized_features}["metadata.version"] == 30

    async def test_an_older_broker_can_be_shown_to_one_client(self, server: ServerControl, client: Client) -> None:
        server.faults.add(Match(client_id="old"), OlderBroker("2.4"))
        assert max(row.max_version for row in (await client.ask(ApiVersionsRequest("c", "1"), 4)).api_keys) == 18
        async with connected(server.server, "old") as old:
            _, _, number = old.send(ApiVersionsRequest("c", "1"), 4)
            refused = await old.receive((ApiKey.API_VERSIONS, 0, number))
            assert [(row.api_key, row.max_version) for row in refused.api_keys] == [(18, 3)]


async def test_a_failing_action_closes_only_its_connection(server: ServerControl, client: Client) -> None:
    class Broken(Action):
        name = "broken"

        def before(self, flow: Any, proceed: Any) -> None:
            flow.later(0, lambda: 1 / 0)

        def words(self) -> str:
            return "broken"

    server.faults.add(COMMIT, Broken(), once())
    client.send(commit(5), 8)
    assert await client.closed()
    async with connected(server.server) as other:
        assert await commits(other, 5) == 0


async def test_rules_and_held_joins_share_one_intercept_point(server: ServerControl, client: Client) -> None:
    assert is_shut(server)
    server.groups.hold_joins("g")
    assert not is_shut(server)
    rule = server.faults.add(Match(api="JoinGroup", group="g"), Throttle(9))
    join = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    asked = client.send(join, 3)
    await until(lambda: server.joins.waiting("g") == 1)
    server.groups.release("g")
    assert (await client.receive(asked)).throttle_time_ms == 9
    assert not is_shut(server)
    server.faults.remove(rule.id)
    assert is_shut(server)
