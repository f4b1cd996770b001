"""Effects of quotas on requests over TCP: throttle times, muting, empty fetches, refused changes.
tests/conformance/test_quotas.py has the waiting times in the same cases on a real Kafka.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.coordinator.api.observer import AnsweredRequest
from muster.coordinator.api.registry import SERVED, Repeats
from muster.coordinator.api.throttled import ThrottledRequests, with_throttle_time
from muster.coordinator.log import batches
from muster.coordinator.net.authentication_gate import ReauthenticationTimer
from muster.coordinator.net.connection_core import MUTED, READY
from muster.coordinator.server import Server
from muster.coordinator.system.jobs import at_once
from muster.protocol import frames
from muster.protocol.api import api
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from muster.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.api.quotas.exchanges import alter, change
from tests.coordinator.test_sasl_listeners import client_of, plain
from tests.support.muster import Client, connected, running, until

CLIENT = (("client-id", "c"),)
SHORT = {"quota.window.num": "2"}
TWO_WINDOWS = {name.replace(".", "_"): value for name, value in SHORT.items()}
"""Rates are counted over little more than a second, so that they are soon exceeded."""


def produce(size: int, acks: int = 1) -> ProduceRequest:
    batch = bytes(batches.build([(None, b"x" * size)], timestamp_ms=0))
    return ProduceRequest(None, acks, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])])


def fetch(session_id: int = 0, epoch: int = -1) -> FetchRequest:
    rows = [FetchTopic("t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)])]
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch,
        topics=rows if epoch <= 0 else [],
    )  # fmt: skip


def records_of(answer: Any) -> int:
    return sum(len(row.records or b"") for topic in answer.responses for row in topic.partitions)


async def limit(server: Server, names: Any, *quotas: tuple[str, float | None]) -> None:
    async with connected(server, "admin") as admin:
        answer = await admin.ask(alter(change(names, *quotas)))
        assert [row.error_code for row in answer.entries] == [0]


def state_of(server: Server, client: Client) -> str:
    """The state of the server's end of a client's connection."""
    port = client.writer.get_extra_info("sockname")[1]
    assert server.nodes[0].limits is not None
    (state,) = [one.core.state for one in server.nodes[0].limits.connections if one.channel.peer.endswith(f":{port}")]
    return state


@asynccontextmanager
async def limited(
    *quotas: tuple[str, float], properties: dict[str, str] | None = None, **named: Any
) -> AsyncIterator[tuple[Server, Client]]:
    """A client that connected before any quota existed."""
    wanted = {**SHORT, **(properties or {})}
    async with running(wanted, topics=["t:1"], **named) as server, connected(server, "c") as client:
        assert (await client.ask(MetadataRequest([]))).throttle_time_ms == 0
        await limit(server, CLIENT, *quotas)
        yield server, client


@pytest.mark.parametrize("key", SERVED)
def test_every_answer_can_have_a_throttle_time(key: int) -> None:
    served = api(key)
    for version in range(SERVED[key].served_from, SERVED[key].max_version + 1):
        whole = b"".join(frames.response_frame(served, version, 7, served.new_response()))
        for given in (whole, [whole[:6], whole[6:]]):
            parts = with_throttle_time(given, key, version, 123_456)
            said = parts if isinstance(parts, bytes) else b"".join(parts)
            correlation_id, body = frames.decode_response_header(served, version, said, 4, len(said))
            found = served.decode_response(version, said, body)
            before = served.decode_response(version, whole, body)
            assert correlation_id == 7
            if said != whole:
                assert found.throttle_time_ms == 123_456
                found.throttle_time_ms = 0
            assert found == before
            has_field = hasattr(found, "throttle_time_ms")
            assert (said != whole) == (has_field and version >= first_with_time(key)), version


def first_with_time(key: int) -> int:
    """The first version whose answer has the throttle time, as its codec shows."""
    served = api(key)
    response: Any = served.new_response()
    response.throttle_time_ms = 9
    for version in range(SERVED[key].served_from, SERVED[key].max_version + 1):
        written = b"".join(frames.response_frame(served, version, 0, response))
        _, body = frames.decode_response_header(served, version, written, 4, len(written))
        if served.decode_response(version, written, body).throttle_time_ms == 9:
            return version
    return 1 << 15


async def test_a_producer_over_its_quota_waits_and_then_continues() -> None:
    async with limited(("producer_byte_rate", 20_000.0)) as (server, client):
        assert (await client.ask(produce(10_000), 9)).throttle_time_ms == 0
        first = await client.ask(produce(11_000), 9)
        # 21 KB in little more than a second, where 20 are allowed
        assert 0 < first.throttle_time_ms < 500
        assert first.responses[0].partition_responses[0].error_code == 0
        assert state_of(server, client) is MUTED
        client.send(MetadataRequest([]), 9)
        await until(lambda: state_of(server, client) is not MUTED, 10_000_000)
        begun = server.clock.mono_ms()
        await client.receive((3, 9, client._correlation_id))
        assert server.clock.mono_ms() - begun < 10_000
        assert state_of(server, client) is READY


async def test_clients_without_the_quota_do_not_wait() -> None:
    async with limited(("producer_byte_rate", 1_000.0)) as (server, client):
        await client.ask(produce(30_000), 9)
        async with connected(server, "other") as other:
            assert (await other.ask(produce(30_000), 9)).throttle_time_ms == 0
        assert state_of(server, client) is MUTED


async def test_a_producer_without_answers_is_muted_too() -> None:
    async with limited(("producer_byte_rate", 1_000.0)) as (server, client):
        client.send(produce(30_000, acks=0), 9)
        await until(lambda: state_of(server, client) is MUTED, 1_000_000)


async def test_a_consumer_over_its_quota_gets_an_empty_answer() -> None:
    async with limited(("consumer_byte_rate", 15_000.0)) as (server, client):
        async with connected(server, "writer") as writer:
            await writer.ask(produce(10_000), 9)
        first = await client.ask(fetch(epoch=0), 12)
        assert (first.throttle_time_ms, records_of(first) > 10_000) == (0, True)
        session = first.session_id
        assert session
        second = await client.ask(fetch(), 12)
        # 20 KB in a second
        assert 0 < second.throttle_time_ms < 1_000
        assert (second.session_id, records_of(second), second.error_code) == (0, 0, 0)
        third = await client.ask(fetch(session, 1), 12)
        assert third.session_id == session


async def test_one_fetch_gets_at_most_the_bytes_of_its_quota() -> None:
    async with limited(("consumer_byte_rate", 5_000.0)) as (server, client):
        async with connected(server, "writer") as writer:
            for _ in range(10):
                await writer.ask(produce(1_000), 9)
        # the bytes around the records may exceed the rate, by some milliseconds
        found = [records_of(await client.ask(fetch(), 12)) for _ in range(2)]
        assert 0 < max(found) <= 5_000


async def test_the_request_percentage_counts_cached_heartbeats() -> None:
    async with limited() as (server, client):
        await until(lambda: True)
        async with connected(server, "admin") as admin:
            await admin.ask(alter(change((("client-id", "other"),), ("request_percentage", 1.0))))
        beat = await member(client)
        for _ in range(5):
            assert (await client.ask(beat, 4)).throttle_time_ms == 0
        await limit(server, CLIENT, ("request_percentage", 0.000_001))
        answer = await client.ask(beat, 4)
        assert (answer.error_code, answer.throttle_time_ms) == (0, 1000)
        assert state_of(server, client) is MUTED


async def test_a_cached_heartbeat_counts_for_the_client_that_sent_it() -> None:
    async with limited() as (server, client):
        beat = await member(client)
        for _ in range(3):
            await client.ask(beat, 4)
        client.client_id = "other"
        await client.ask(MetadataRequest([]))
        await limit(server, (("client-id", "other"),), ("request_percentage", 0.000_001))
        client.client_id = "c"
        for _ in range(2):
            assert (await client.ask(beat, 4)).throttle_time_ms == 0


async def member(client: Client) -> HeartbeatRequest:
    """Join a group; returns a heartbeat of the member."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    joined: Any = None
    for _ in range(2):
        request = JoinGroupRequest("g", 10_000, 10_000, joined.member_id if joined else "", None, "consumer", protocols)
        joined = await client.ask(request, 5)
    synced = await client.ask(SyncGroupRequest("g", joined.generation_id, joined.member_id), 3)
    assert synced.error_code == 0
    return HeartbeatRequest("g", joined.generation_id, joined.member_id)


async def test_topic_changes_over_the_quota_are_refused_or_delayed() -> None:
    """After 250 ms the credits are full again. On a busy machine, two requests may need more time: then try again."""
    for _ in range(100):
        if await changed_over_the_quota(within_s=0.2):
            return
    pytest.fail("100 times, two requests took more than 200 ms")


async def changed_over_the_quota(within_s: float) -> bool:
    """False when two requests that must be close to each other took more than `within_s`."""
    properties = {"controller.quota.window.num": "1"}
    async with limited(("controller_mutation_rate", 4.0), properties=properties) as (server, client):

        async def create(name: str, count: int, version: int, *, only: bool = False) -> tuple[int, str | None, bool]:
            answer = await client.ask(CreateTopicsRequest([CreatableTopic(name, count, 1)], 1000, only), version)
            row = answer.topics[0]
            return row.error_code, row.error_message, answer.throttle_time_ms > 0

        refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED, None, True
        began = time.monotonic()
        assert await create("a", 5, 7) == (0, None, False)
        second = await create("b", 1, 7, only=True)
        if time.monotonic() - began > within_s:
            return False
        assert second == refused
        # the throttle time is over: the credits are full again
        assert await create("b", 2, 5) == (0, None, True)
        grown = await client.ask(CreatePartitionsRequest([CreatePartitionsTopic("a", 6, None)], 1000), 3)
        assert (grown.results[0].error_code, grown.throttle_time_ms) == (0, 0)
        began = time.monotonic()
        deleted = await client.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
        if time.monotonic() - began > within_s:
            return False
        assert (deleted.responses[0].error_code, deleted.throttle_time_ms > 0) == (refused[0], True)
        assert "a" in server.topics.by_name
        return True


async def test_a_metadata_request_over_the_quota_creates_no_topic() -> None:
    properties = {"controller.quota.window.num": "1", "num.partitions": "3"}
    async with limited(("controller_mutation_rate", 0.1), properties=properties) as (server, client):
        for name, code in (("a", 0), ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
            answer = await client.ask(MetadataRequest([MetadataRequestTopic(name=name)]), 9)
            assert (answer.topics[0].error_code, answer.throttle_time_ms) == (code, 0)
        assert "b" not in server.topics.by_name


async def test_quotas_apply_from_the_start_and_can_be_removed(tmp_path: Any) -> None:
    async with running(SHORT, topics=["t:1"], data_dir=tmp_path) as server:
        await limit(server, CLIENT, ("producer_byte_rate", 1_000_000.0))
        await limit(server, (("user", "ANONYMOUS"),), ("producer_byte_rate", 1_000.0))
    async with running(SHORT, topics=["t:1"], data_dir=tmp_path) as server, connected(server, "c") as client:
        # the user's quota has priority over that of the client id
        assert (await client.ask(produce(1_100), 9)).throttle_time_ms > 0
        await limit(server, (("user", "ANONYMOUS"),), ("producer_byte_rate", None))
        assert (await client.ask(produce(300), 9)).throttle_time_ms == 0


class RecordingObserver(list[AnsweredRequest]):
    times_each = True

    def __init__(self) -> None:
        super().__init__()
        self.repeats: dict[int, Repeats] = {}

    def observe(self, request: AnsweredRequest) -> None:
        self.append(request)


async def test_the_observer_gets_a_request_whose_answer_is_throttled_also_after_the_first_quota() -> None:
    observed = RecordingObserver()
    async with running(topics=["t:1"], observer=observed) as server, connected(server, "c") as client:
        await client.ask(MetadataRequest([]))
        await limit(server, CLIENT, ("producer_byte_rate", 1_000.0))
        assert (await client.ask(produce(30_000), 9)).throttle_time_ms > 0
        assert [one.api_key for one in observed] == [3, 49, 0]


async def test_a_muted_connection_that_ends_leaves_nothing_behind() -> None:
    async with limited(("producer_byte_rate", 1.0)) as (server, client):
        await client.ask(produce(30_000), 9)
        assert server.nodes[0].limits is not None
        assert server.nodes[0].limits._muted
        (muted,) = server.nodes[0].limits._muted
        muted.close_idle()
        await until(lambda: not server.nodes[0].limits._muted)


async def test_connections_without_quotas_have_no_throttling_layer() -> None:
    async with running() as server, connected(server) as client:
        await client.ask(MetadataRequest([]))
        assert server.nodes[0].limits is not None
        (connection,) = server.nodes[0].limits.connections
        assert not isinstance(connection._requests, ThrottledRequests)
        await limit(server, (("ip", None),), ("connection_creation_rate", 1000.0))
        assert not isinstance(connection._requests, ThrottledRequests)
        await limit(server, CLIENT, ("producer_byte_rate", 1000.0))
        assert isinstance(connection._requests, ThrottledRequests)
        await asyncio.sleep(0)


async def test_quotas_apply_to_a_user_that_authenticates_later() -> None:
    """Quotas are set while one client has not authenticated yet; another one authenticates again."""
    async with client_of(connections_max_reauth_ms="600000", **TWO_WINDOWS) as (server, alice):
        async with connected(server) as late:
            await plain(alice)
            assert (await late.ask(SaslHandshakeRequest("PLAIN"))).error_code == 0
            changes = [change((("user", name),), ("request_percentage", 0.000_001)) for name in ("alice", "bob")]
            assert [row.error_code for row in (await alice.ask(alter(*changes))).entries] == [0, 0]
            assert (await late.ask(SaslAuthenticateRequest(b"\0bob\0b"))).error_code == 0
            assert (await late.ask(MetadataRequest([]))).throttle_time_ms == 1000
        assert (await plain(alice)).error_code == 0
        assert (await alice.ask(MetadataRequest([]))).throttle_time_ms == 1000


async def test_quotas_set_after_an_expired_session_do_not_break_the_connection() -> None:
    async with client_of(connections_max_reauth_ms="1", **TWO_WINDOWS) as (server, client):
        await plain(client)
        assert server.nodes[0].limits is not None
        (connection,) = server.nodes[0].limits.connections
        await until(lambda: isinstance(connection._requests, ReauthenticationTimer))
        record = ClientQuotaRecord([EntityData("user", "a")], "request_percentage", 1.0)
        at_once(server.topics.writing([record]))
        session = connection._requests
        assert isinstance(session, ReauthenticationTimer)
        assert isinstance(session._requests, ThrottledRequests)
        assert (await plain(client)).error_code == 0
