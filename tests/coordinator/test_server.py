"""The whole server in this process: start, listeners, loading, bad clients on real sockets, stop."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from muster.coordinator.api import registry
from muster.coordinator.log import DirectoryLocked
from muster.coordinator.net.connection_core import PEER
from muster.coordinator.runtime.loader import Loader
from muster.coordinator.server import Server
from muster.coordinator.system.file_limits import FileShares
from muster.protocol import frames
from muster.protocol.api import api
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from muster.protocol.messages.metadata import MetadataRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.api.harness import before_handler
from tests.support.muster import Client, connected, running, until


def join(group: str = "g", member_id: str = "", rebalance_ms: int = 60_000) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"x")]
    return JoinGroupRequest(group, 60_000, rebalance_ms, member_id, None, "consumer", protocols)


def commit(
    offset: int, group: str = "g", topic: str = "t", generation: int = -1, member: str = ""
) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(0, offset)
    return OffsetCommitRequest(group, generation, member, topics=[OffsetCommitRequestTopic(topic, partitions=[row])])


async def enter(client: Client, group: str = "g") -> JoinGroupResponse:
    """Join as the only member, and take all of the assignment."""
    asked: JoinGroupResponse = await client.ask(join(group))
    assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined: JoinGroupResponse = await client.ask(join(group, asked.member_id))
    sync = SyncGroupRequest(group, joined.generation_id, joined.member_id, None, "consumer", "range",
                            [SyncGroupRequestAssignment(joined.member_id, b"all")])  # fmt: skip
    assert (await client.ask(sync)).assignment == b"all"
    return joined


class TestGroups:
    async def test_a_member_joins_syncs_commits_and_leaves(self, muster_server: Server) -> None:
        async with connected(muster_server) as client:
            joined = await enter(client)
            assert (joined.generation_id, joined.leader) == (1, joined.member_id)
            alive = HeartbeatRequest("g", 1, joined.member_id)
            assert await client.ask(alive) == HeartbeatResponse()
            committed = await client.ask(commit(5, generation=1, member=joined.member_id), 9)
            assert committed.topics[0].partitions[0].error_code == 0
            fetched = await client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 9)
            assert fetched.groups[0].topics[0].partitions[0].committed_offset == 5

    async def test_the_log_says_why_a_group_rebalanced(self, muster_server: Server) -> None:
        async with connected(muster_server) as client:
            with capture_logs() as logs:
                member = (await enter(client)).member_id
            logged = [line for line in logs if line["log_level"] == "info"]
            assert [(line["event"], line["group"]) for line in logged] == [
                ("a rebalance began", "g"),
                ("a rebalance is done", "g"),
            ]
            assert (logged[0]["cause"], logged[0]["trigger"]) == ("a new member joined", member)
            assert (logged[1]["members"], logged[1]["generation"]) == (1, 1)

    async def test_an_existing_topic_with_another_partition_count_is_logged(self, tmp_path: Path) -> None:
        async with running(data_dir=tmp_path, topics=["t:1", "u:2"]):
            pass
        with capture_logs() as logs:
            async with running(data_dir=tmp_path, topics=["t:7", "u:2"]) as server:
                assert len(server.topics.by_name["t"].partitions) == 1
        logged = [line for line in logs if line["log_level"] == "warning"]
        assert [(line["topic"], line["partitions"], line["wanted"]) for line in logged] == [("t", 1, 7)]

    async def test_groups_and_offsets_survive_a_restart(self, tmp_path: Path) -> None:
        async with running(data_dir=tmp_path, topics=["t:1"]) as server, connected(server) as client:
            joined = await enter(client)
            await client.ask(commit(7, generation=1, member=joined.member_id), 9)
        async with running(data_dir=tmp_path) as server, connected(server) as client:
            assert await client.ask(HeartbeatRequest("g", 1, joined.member_id)) == HeartbeatResponse()
            fetched = await client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 9)
            assert fetched.groups[0].topics[0].partitions[0].committed_offset == 7
            described = await client.ask(DescribeGroupsRequest(["g"]))
            assert (described.groups[0].group_state, described.groups[0].members[0].member_assignment) == (
                "Stable",
                b"all",
            )

    async def test_a_second_server_on_the_same_data_is_refused(self, tmp_path: Path) -> None:
        async with running(data_dir=tmp_path) as server:
            with pytest.raises(DirectoryLocked):
                async with running(data_dir=tmp_path):
                    pass
            async with connected(server) as client:
                assert (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[
                    0
                ].error_code == 0

    async def test_requests_are_refused_while_a_long_log_loads(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running(data_dir=tmp_path, topics=["t:1"]) as server, connected(server) as client:
            await client.ask(commit(7), 9)
        monkeypatch.setattr("muster.coordinator.server.server.LOAD_BEFORE_LISTENING_MS", -1)
        held: list[Loader] = []
        monkeypatch.setattr(Loader, "_next_step", lambda self: held.append(self))
        async with running(data_dir=tmp_path) as server, connected(server) as client:
            answer = await client.ask(commit(8), 9)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            monkeypatch.undo()
            held[0]._next_step()
            await until(lambda: all(shard.active for shard in server.routing.shards))
            answer = await client.ask(commit(8), 9)
            assert answer.topics[0].partitions[0].error_code == 0


class TestListeners:
    async def test_answers_name_the_address_of_the_listener_asked(self) -> None:
        properties = {
            "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
            "advertised.listeners": "ONE://one.example:1111,TWO://two.example:2222",
            "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
        }
        async with running(properties) as server:
            reported = []
            for bound in list(server.bound):
                server.nodes[0].bound = [bound]
                async with connected(server) as client:
                    row = (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0]
                    reported.append((row.node_id, row.host, row.port))
        assert reported == [(1, "one.example", 1111), (1, "two.example", 2222)]

    async def test_the_connections_own_address_is_advertised_by_default(self, muster_server: Server) -> None:
        async with connected(muster_server) as client:
            row = (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0]
            assert (row.host, row.port) == ("127.0.0.1", muster_server.bound[0].port)

    async def test_a_port_that_is_taken_is_named_and_nothing_stays_open(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
                async with running({"listeners": f"PLAINTEXT://127.0.0.1:{port}"}, data_dir=tmp_path):
                    pass
        async with running(data_dir=tmp_path):
            pass


GARBAGE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    struct.pack(">i", 0x7FFF_FFFF) + b"x" * 100,
    struct.pack(">i", -5),
    struct.pack(">i", 0),
    struct.pack(">ihhih", 10, 999, 0, 1, -1),
    struct.pack(">ihhih", 10, 12, 99, 1, -1),
    struct.pack(">ihhih", 10, 12, 4, 1, 30_000),
    b"\0" * 1_000,
    b"\xff" * 1_000,
]


class TestBadClients:
    @pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
    async def test_garbage_closes_its_connection_with_one_log_line(self, muster_server: Server, garbage: bytes) -> None:
        async with connected(muster_server) as good, connected(muster_server) as bad:
            peer = "{}:{}".format(*bad.writer.get_extra_info("sockname"))
            with capture_logs() as logs:
                bad.writer.write(garbage)
                assert await bad.closed()
            assert [line["peer"] for line in logs] == [peer]
            assert logs[0]["why"]
            assert (await good.ask(ApiVersionsRequest("a", "1"))).error_code == 0

    async def test_a_refused_produce_without_acks_ends_its_connection(self, muster_server: Server) -> None:
        data = [TopicProduceData("nowhere", partition_data=[PartitionProduceData(3, b"rubbish")])]
        async with connected(muster_server) as client:
            with capture_logs() as logs:
                before = client.send(HeartbeatRequest("g", 1, "m"))
                client.send(ProduceRequest(acks=0, topic_data=data), 12)
                client.send(HeartbeatRequest("g", 1, "m"))
                assert (await client.receive(before)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
                assert await client.reader.read() == b""
            assert [(line["why"], line["topic"], line["error"]) for line in logs if "why" in line] == [
                ("a Produce request with acks=0 was refused", "nowhere", "UNKNOWN_TOPIC_OR_PARTITION")
            ]

    async def test_a_frame_sent_byte_by_byte_is_handled(self, muster_server: Server) -> None:
        async with connected(muster_server) as slow:
            whole = frames.request_frame(api(12), 4, 77, HeartbeatRequest("g", 1, "m"), "slow")
            for byte in whole:
                slow.writer.write(bytes((byte,)))
                await slow.writer.drain()
            assert (await slow.receive((12, 4, 77))).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    async def test_many_requests_at_once_are_answered_in_order(self, muster_server: Server) -> None:
        async with connected(muster_server) as client:
            asked = [client.send(HeartbeatRequest("g", 1, "m")) for _ in range(3_000)]
            for one in asked:
                assert (await client.receive(one)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    async def test_a_heartbeat_behind_a_parked_join_waits_for_it(self, muster_server: Server) -> None:
        async with connected(muster_server) as first, connected(muster_server) as second:
            joined = await enter(first)
            asked = await second.ask(join())
            parked = second.send(join(member_id=asked.member_id))
            beat = second.send(HeartbeatRequest("g", 2, asked.member_id))
            rejoined = first.send(join(member_id=joined.member_id))
            assert (await second.receive(parked)).generation_id == 2
            assert (await second.receive(beat)).error_code == 0
            assert (await first.receive(rejoined)).generation_id == 2

    async def test_a_member_whose_connection_is_reset_stays_until_its_session_ends(self, muster_server: Server) -> None:
        async with connected(muster_server) as first:
            joined = await enter(first)
            async with connected(muster_server) as second:
                asked = await second.ask(join())
                second.send(join(member_id=asked.member_id))
                await second.writer.drain()
                alive = HeartbeatRequest("g", 1, joined.member_id)
                while (await first.ask(alive)).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                    pass
                reset = second.writer.get_extra_info("socket")
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                second.writer.transport.abort()
            rejoined = await first.ask(join(member_id=joined.member_id))
            assert len(rejoined.members) == 2

    async def test_a_client_that_never_reads_delays_only_itself(self, muster_server: Server) -> None:
        async with connected(muster_server) as deaf, connected(muster_server) as good:
            deaf.reader._transport.pause_reading()
            request = DescribeGroupsRequest(["g" * 1_000] * 30)
            asked = [deaf.send(request, 0) for _ in range(1_000)]
            limits: Any = muster_server.nodes[0].limits
            await until(lambda: any(connection.core.waits_for & PEER for connection in limits.connections))
            assert (await good.ask(HeartbeatRequest("g", 1, "m"))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            deaf.reader._transport.resume_reading()
            for one in asked:
                assert len((await deaf.receive(one)).groups) == 30

    async def test_a_handler_fault_is_logged_and_closes_one_connection(
        self, muster_server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setitem(registry._loaded, 12, fail)
        async with connected(muster_server) as good, connected(muster_server) as client:
            with capture_logs() as logs:
                client.send(HeartbeatRequest("g", 1, "m"))
                assert await client.closed()
            assert (await good.ask(ApiVersionsRequest("a", "1"))).error_code == 0
        assert "a bug" in str(logs)

    async def test_an_interceptor_can_delay_a_request_of_a_server(self) -> None:
        held: list[Any] = []
        intercept = before_handler(lambda context, request, proceed: held.append(proceed))
        async with running(intercept=intercept) as server, connected(server) as client:
            asked = client.send(HeartbeatRequest("g", 1, "m"))
            await until(lambda: bool(held))
            held[0]()
            assert (await client.receive(asked)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestStop:
    async def test_parked_requests_are_answered_before_the_end(self) -> None:
        async with running() as server, connected(server) as first, connected(server) as second:
            await enter(first)
            asked = await second.ask(join())
            parked = second.send(join(member_id=asked.member_id))
            await until(lambda: _parks(server))
            await server.stop()
            assert (await second.receive(parked)).error_code == ErrorCode.NOT_COORDINATOR
            assert await first.closed()
            assert await second.closed()
            server.stop = _stopped

    async def test_a_stopping_server_accepts_no_connections(self) -> None:
        async with running() as server:
            bound = server.bound[0]
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(bound.host, bound.port)

    async def test_a_client_that_reads_nothing_does_not_delay_the_stop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("muster.coordinator.server.nodes.running_node.CLOSE_MS", 20)
        async with running() as server, connected(server) as deaf:
            deaf.reader._transport.pause_reading()
            request = DescribeGroupsRequest(["g" * 1_000] * 30)
            for _ in range(1_000):
                deaf.send(request, 0)
            limits: Any = server.nodes[0].limits
            await until(lambda: any(connection.core.waits_for & PEER for connection in limits.connections))
            await server.stop()
            assert len(limits) == 0
            server.stop = _stopped
            deaf.writer.transport.abort()


def _parks(server: Server) -> bool:
    limits: Any = server.nodes[0].limits
    return any(connection.core.is_answering for connection in limits.connections)


async def _stopped() -> None:
    """Do nothing: the test has stopped the server already."""


async def test_configs_changed_at_run_time_apply_and_survive_a_restart(tmp_path: Path) -> None:
    def alter(name: str, **configs: str) -> IncrementalAlterConfigsRequest:
        rows = [AlterableConfig(key.replace("_", "."), 0, text) for key, text in configs.items()]
        return IncrementalAlterConfigsRequest([AlterConfigsResource(4, name, rows)])

    async with running(data_dir=tmp_path) as server, connected(server) as client:
        for_all = alter("", max_connections="7", log_cleaner_backoff_ms="16000", producer_id_expiration_ms="60000")
        assert (await client.ask(for_all)).responses[0].error_code == 0
        assert (await client.ask(alter("1", max_connections="5"))).responses[0].error_code == 0
        _check_changed(server)
    async with running(data_dir=tmp_path) as server:
        _check_changed(server)


def _check_changed(server: Server) -> None:
    assert server.nodes[0].limits is not None
    assert server.nodes[0].limits.max_connections == 5
    assert server.logs.settings.log_cleaner_backoff_ms == 16_000
    assert server.topics.settings.producer_id_expiration_ms == 60_000


@given(allowed=st.integers(16, 3_000), steps=st.lists(st.booleans(), max_size=200))
def test_connections_and_logs_share_the_available_files(allowed: int, steps: list[bool]) -> None:
    shares = FileShares(allowed)
    connections = logs = 0
    for is_connection in steps:
        for _ in range(allowed // 10):
            if is_connection:
                connections += connections < shares.connections(logs)
            else:
                logs += logs < shares.logs(connections)
    assert connections + logs <= allowed - shares.kept_back
    assert shares.connections(0) >= allowed // 2
    assert shares.logs(allowed) > 0


@pytest.mark.parametrize("nodes", [1, 2])
async def test_the_host_of_listeners_is_advertised(nodes: int) -> None:
    properties = {"listeners": "PLAINTEXT://localhost:0", "muster.nodes": str(nodes)}
    async with running(properties) as server:
        ports = {number: bound.port for number, bound in enumerate(server.bound, 1)}
        places = {(number, "localhost", port) for number, port in ports.items()}
        reader, writer = await asyncio.open_connection("127.0.0.1", server.bound[0].port)
        client = Client(reader, writer, "test")
        metadata = await client.ask(MetadataRequest([]))
        assert {(one.node_id, one.host, one.port) for one in metadata.brokers} == places
        found = (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0]
        assert (found.node_id, found.host, found.port) in places
        cluster = await client.ask(DescribeClusterRequest())
        assert {(one.broker_id, one.host, one.port) for one in cluster.brokers} == places
        writer.close()


async def test_joins_that_arrive_together_make_one_generation() -> None:
    """The rule holds also without an initial delay. Arrived requests are handled before the first generation begins, as
    Kafka handles its queue before the timer of its purgatory.
    """
    async with running() as server, connected(server) as first, connected(server) as second:
        for number in range(10):
            group = f"g{number}"
            ids = [(await client.ask(join(group), 9)).member_id for client in (first, second)]
            # this is also the server's event loop: it reads neither request before both are sent
            asked = [client.send(join(group, one), 9) for client, one in zip((first, second), ids, strict=True)]
            answers = [await client.receive(one) for client, one in zip((first, second), asked, strict=True)]
            assert [(one.error_code, one.generation_id) for one in answers] == [(0, 1), (0, 1)]
            assert sorted(len(one.members) for one in answers) == [0, 2]


async def test_the_data_directory_is_logged_as_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with capture_logs() as logs:
        async with running(data_dir=Path("data"), topics=["t:1"]) as server, connected(server) as client:
            (answer,) = (await client.ask(DescribeLogDirsRequest(None))).results
    assert answer.log_dir == str(tmp_path / "data")
    assert answer.total_bytes > 0
    said = [value for line in logs for name, value in line.items() if name in ("directory", "path")]
    assert said == [value for value in said if value.startswith(str(tmp_path))]


async def test_an_in_memory_server_has_no_data_directory(muster_server: Server) -> None:
    async with connected(muster_server) as client:
        (answer,) = (await client.ask(DescribeLogDirsRequest(None))).results
    assert (answer.log_dir, answer.total_bytes) == ("memory", -1)
