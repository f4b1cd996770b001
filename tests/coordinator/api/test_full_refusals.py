"""Every error answer of every API is complete in every version. It names everything that the request named, or has one
error as a whole, as the answers of Kafka's classes do.

Each layer that can refuse is made to refuse on a server. Then every API is called in every version over TCP. A new API
fails here until it is refused in each layer, or is listed as one that the layer does not concern.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import structlog

from muster.coordinator.api import dispatch, registry
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import Exchange, Intercept
from muster.coordinator.api.many_rows import NO_LIMIT, AnswerSize
from muster.coordinator.api.registry import SERVED
from muster.coordinator.runtime.replies import Parked
from muster.coordinator.server import Server
from muster.coordinator.topics.cluster_image import Leader
from muster.protocol.api import api, api_named
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.shapes.offset_fetch import FIRST_WITH_GROUPS
from muster.testcontrol.faults.error_answers import error_answer
from tests.coordinator.api.full_requests import NAMELESS, NO_IDS, Ids, errors, fitting, kafkas, make, versions
from tests.coordinator.api.harness import Refusing
from tests.support.muster import Client, connected, running, until

ALL = frozenset(api(key).name for key in SERVED)
OF_GROUPS = frozenset((
    "OffsetCommit", "OffsetFetch", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups",
    "OffsetDelete", "DeleteGroups", "TxnOffsetCommit", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe",
))  # fmt: skip
OF_TRANSACTIONS = frozenset((
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions", "ListTransactions",
))  # fmt: skip
OF_LEADERS = frozenset((
    "Produce", "Fetch", "ListOffsets", "DeleteRecords", "OffsetForLeaderEpoch", "DescribeProducers",
))  # fmt: skip
WRITERS = frozenset((
    "Produce", "OffsetCommit", "CreateTopics", "CreatePartitions", "DeleteTopics", "AlterConfigs",
    "IncrementalAlterConfigs", "AlterClientQuotas", "AlterUserScramCredentials", "InitProducerId", "UpdateFeatures",
))  # fmt: skip
OF_LIMITED_SIZE = frozenset((
    "OffsetFetch", "DescribeGroups", "DescribeConfigs", "DescribeQuorum", "DescribeProducers", "DescribeTransactions",
    "ConsumerGroupDescribe", "DescribeUserScramCredentials", "DescribeDelegationToken", "DescribeAcls",
))  # fmt: skip
"""APIs with an answer row for each name in the request. Lists of existing things become too large as a whole."""
KAFKAS = kafkas()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """A server with the topics of the requests, each with two partitions."""
    async with running(topics=["t:2", "u:2"]) as server:
        async with connected(server) as client:  # the first search for a coordinator creates the topic
            for kind in (0, 1):
                await client.ask(make("find_coordinator", "FindCoordinatorRequest", key="x", key_type=kind), 3)
        yield server


def ids_of(server: Server) -> Ids:
    """The ids of the topics."""
    return {name: server.node.topics.image.by_name[name].topic_id for name in ("t", "u")}


def shards_of(server: Server) -> list[Any]:
    """The shards of groups and of transactional ids."""
    return [*server.routing.shards, *server.node.transactions.routing.shards]


def missing(key: int, version: int, response: Message, ids: Ids, *, wholly: bool) -> list[Any]:
    """The names that have an error in Kafka's answer, and none in this answer. Every row may have the same error in
    place of one for the whole answer. `wholly`: nothing may be without an error; otherwise at least a row must exist.
    """
    real = {one.hex(): NO_IDS[name].hex() for name, one in ids.items()}
    found = {tuple(real.get(part, part) for part in path): code for path, code in errors(response).items()}
    if not wholly and found.get(()):
        return []
    there = [path for path, code in found.items() if path and (code or not wholly)]
    name = api(key).name
    if name == "OffsetFetch":  # old clients look for errors in rows only, so versions 2-7 have the error there too
        version = 1 if version < FIRST_WITH_GROUPS else version
    wanted = [tuple(path) for path in KAFKAS[f"{name} {version}"] if path]
    if any(NAMELESS in path for path in wanted):
        return wanted[len(there) :]
    return [path for path in wanted if path not in there]


MAX_TRIES = 20


async def refused(
    server: Server, apis: frozenset[str] = ALL, *, wholly: bool = True, before: Any = None
) -> dict[str, list[str]]:
    """Call each of these APIs in every version. Returns, by name, what is missing in its errors. An API that is never
    refused is left out.
    """
    ids, found = ids_of(server), dict[str, list[str]]()
    for key, version in versions():
        name = api(key).name
        if name not in apis:
            continue
        async with connected(server) as client:
            for _ in range(1 if before is None else MAX_TRIES):
                if before is not None:
                    before()
                response = await asyncio.wait_for(client.ask(fitting(key, version, ids), version), 30)
                if any(errors(response).values()):
                    break  # otherwise a busy machine was slow, and the node recovered before it read the request
        note(found, key, version, response, ids, wholly=wholly)
    return found


def note(
    found: dict[str, list[str]], key: int, version: int, response: Message, ids: Ids, *, wholly: bool = True
) -> None:
    """Add what an answer lacks, if it has any error."""
    if any(errors(response).values()):
        paths = missing(key, version, response, ids, wholly=wholly)
        found[f"{api(key).name} {version}"] = [f"it does not name {path}" for path in paths]


def check(found: dict[str, list[str]], expected: frozenset[str]) -> None:
    """Check that nothing is missing, and that these APIs were refused, in all versions."""
    left_out = [f"{name}: {row}" for name, rows in found.items() for row in rows]
    assert not left_out, "\n".join(left_out)
    of_all = [(api(key).name, f"{api(key).name} {version}") for key, version in versions()]
    # DescribeLogDirs had no place for an error before version 3
    wanted = {version for name, version in of_all if name in expected and KAFKAS[version]}
    assert (sorted(set(found) - wanted), sorted(wanted - set(found))) == ([], [])


def test_each_served_api_has_a_request_in_this_test() -> None:
    assert {f"{api(key).name} {version}" for key, version in versions()} == set(KAFKAS)


class RefusesAll(Refusing):
    def allows(self, *_: Any, log_denied: bool = True) -> bool:
        del log_denied
        return False


async def test_refusals_without_permission_name_everything_that_was_asked_for() -> None:
    # any client may send these; as on Kafka, the others omit rows that a client may not see
    untouched = {"ApiVersions", "ListGroups", "ListTransactions", "DescribeCluster", "GetTelemetrySubscriptions"}
    async with serving() as server:
        server.node.authorizer = RefusesAll()
        check(await refused(server), ALL - untouched)


async def test_refusals_while_coordinators_load_name_everything_that_was_asked_for() -> None:
    async with serving() as server:
        for shard in shards_of(server):
            shard.runtime.resign(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        found = await refused(server, OF_GROUPS | OF_TRANSACTIONS)
    # then a heartbeat gets no error, so that the member need not join again
    check(found, (OF_GROUPS | OF_TRANSACTIONS) - {"Heartbeat"})


async def test_refusals_of_offline_coordinators_name_everything_that_was_asked_for() -> None:
    async with serving() as server:
        for shard in shards_of(server):
            shard.runtime.resign(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        found = await refused(server, OF_GROUPS | OF_TRANSACTIONS)
    # lists leave out the groups and transactions of an offline partition
    check(found, (OF_GROUPS | OF_TRANSACTIONS) - {"ListGroups", "ListTransactions"})


async def test_refusals_without_a_topic_of_transactions_name_everything_that_was_asked_for() -> None:
    async with running(topics=["t:2", "u:2"]) as server:  # nobody has searched for a coordinator
        found = await refused(server, OF_TRANSACTIONS)
    check(found, OF_TRANSACTIONS - {"ListTransactions"})


async def test_refusals_of_a_node_that_does_not_lead_name_everything_that_was_asked_for() -> None:
    async with serving() as server:
        for shard in shards_of(server):
            shard.runtime.resign()
        server.node.cluster = server.node.cluster._replace(
            leaders={**server.node.cluster.leaders, **{name: [Leader(9, 0)] * 2 for name in ("t", "u")}}
        )
        found = await refused(server, OF_GROUPS | OF_TRANSACTIONS | OF_LEADERS, wholly=False)
    # lists omit groups and transactions of other nodes
    check(found, (OF_GROUPS | OF_TRANSACTIONS | OF_LEADERS) - {"ListGroups", "ListTransactions"})


async def test_refusals_of_a_resigning_coordinator_name_everything_that_was_asked_for() -> None:
    """The requests come, and wait for an earlier write; then the shards are given up in order."""
    async with serving() as server, AsyncExitStack() as open_clients:
        ids, found = ids_of(server), dict[str, list[str]]()
        shards = shards_of(server)
        for shard in shards:
            shard.runtime.replies.parked.append(Parked(2**62, (), 0))

        def parked() -> int:
            return sum(len(shard.runtime.replies.parked) for shard in shards)

        asked: list[tuple[Client, tuple[int, int, int]]] = []
        for key, version in versions():
            if api(key).name in OF_GROUPS | OF_TRANSACTIONS:
                client = await open_clients.enter_async_context(connected(server))
                before = parked()
                asked.append((client, client.send(fitting(key, version, ids), version)))
                await until(lambda before=before: parked() > before)
        for shard in shards:
            shard.runtime.resign()
        for client, sent in asked:
            note(found, *sent[:2], await asyncio.wait_for(client.receive(sent), 30), ids)
    # lists omit groups and transactions of other nodes
    check(found, (OF_GROUPS | OF_TRANSACTIONS) - {"ListGroups", "ListTransactions"})


async def test_refusals_after_a_disk_error_name_everything_that_was_asked_for() -> None:
    async with serving() as server:

        def break_disk() -> None:
            broken = OSError("the disk is gone")
            for topic in server.node.topics.by_name.values():
                for partition in topic.partitions:
                    assert partition is not None
                    partition.log.go_offline("a test", broken)
            server.node.topics.metadata_log.log.go_offline("a test", broken)

        found = await refused(server, WRITERS, before=break_disk)  # the failed log is opened again
    check(found, WRITERS)


async def test_refusals_of_a_full_answer_name_everything_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(room: AnswerSize, _: int) -> bool:
        room.is_used_up = room.left < NO_LIMIT // 2
        return not room.is_used_up

    monkeypatch.setattr(AnswerSize, "add", full)
    async with serving() as server:
        found = await refused(server, OF_LIMITED_SIZE)
    check(found, OF_LIMITED_SIZE)


async def test_refusals_after_a_timeout_name_everything_that_was_asked_for() -> None:
    async with serving() as server:
        ids, found = ids_of(server), dict[str, list[str]]()
        for key, version in versions():
            request: Any = fitting(key, version, ids)
            if hasattr(request, "timeout_ms"):
                request.timeout_ms = 0
                async with connected(server) as client:
                    note(found, key, version, await asyncio.wait_for(client.ask(request, version), 30), ids)
    # AddRaftVoter is always refused
    check(found, frozenset(("CreateTopics", "DeleteTopics", "CreatePartitions", "ElectLeaders", "AddRaftVoter")))


async def test_refusals_by_the_controller_quota_name_everything_that_was_asked_for() -> None:
    async with serving() as server:
        quota = make("alter_client_quotas", "OpData", key="controller_mutation_rate", value=0.001)
        everybody = make("alter_client_quotas", "AlterClientQuotasRequestEntityData", entity_type="user",
                         entity_name=None)  # fmt: skip
        entry = make("alter_client_quotas", "AlterClientQuotasRequestEntryData", entity=[everybody], ops=[quota])
        found: dict[str, list[str]] = {}
        async with connected(server) as client:
            await client.ask(make("alter_client_quotas", "AlterClientQuotasRequest", entries=[entry]))
            topics = [make("create_topics", "CreatableTopic", name="more", num_partitions=9, replication_factor=1)]
            await client.ask(make("create_topics", "CreateTopicsRequest", topics=topics, timeout_ms=1_000), 7)
        for name, first in (("CreateTopics", 6), ("DeleteTopics", 5), ("CreatePartitions", 3)):
            served = SERVED[api_named(name).key]
            for version in range(first, served.max_version + 1):
                async with connected(server) as client:
                    response = await client.ask(fitting(served.key, version, ids_of(server)), version)
                assert {code for code in errors(response).values() if code} == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
                note(found, served.key, version, response, ids_of(server))
    assert not any(found.values()), found
    assert len(found) == 5


async def test_refusals_made_by_an_interceptor_name_everything_that_was_asked_for() -> None:
    def refuse(context: RequestContext, request: Message, exchange: Exchange, _: object) -> None:
        exchange(error_answer(context.api_key, context.api_version, request, ErrorCode.NOT_COORDINATOR))

    async with running(topics=["t:2", "u:2"], intercept=Intercept(refuse)) as server:
        check(await refused(server), ALL)


async def test_a_fault_in_a_handler_ends_the_connection_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    async with running() as server:
        monkeypatch.setattr(dispatch, "log", structlog.testing.CapturingLogger())
        monkeypatch.setattr(registry, "_loaded", dict.fromkeys(SERVED, fail))
        for key, version in versions():
            async with connected(server) as client:
                client.send(fitting(key, version), version)
                assert await asyncio.wait_for(client.reader.read(), 30) == b""
