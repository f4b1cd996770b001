"""Requests about feature levels, the quorum, controllers and log directories, and what Kafka 4.4 answers.

The cluster is new.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from muster.protocol.message import ZERO_UUID, Message, copied
from muster.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from muster.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from muster.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from muster.protocol.messages.unregister_controller import UnregisterControllerRequest
from muster.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.support.muster import Client

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
GROUP, METADATA, TRANSACTION = "group.version", "metadata.version", "transaction.version"
COMPARED = (GROUP, METADATA, TRANSACTION)
"""The features that Muster and Kafka have alike."""
HERE = "the node's log directory"
"""Stands for the path, which each server has of its own."""
CLUSTER_ID = "the id of the cluster"


class Exchange(NamedTuple):
    """One request in one version."""

    name: str
    request: Message
    version: int


def update(*rows: tuple[str, int, int], dry: bool = False) -> UpdateFeaturesRequest:
    """Set features (name, level, upgrade type)."""
    updates = [FeatureUpdateKey(name, level, upgrade_type=kind) for name, level, kind in rows]
    return UpdateFeaturesRequest(60_000, updates, dry)


def _updates() -> Iterable[tuple[str, UpdateFeaturesRequest]]:
    yield "nothing", update()
    yield "an unknown feature", update(("no.such", 1, UPGRADE))
    yield "an unknown feature at level 0", update(("no.such", 0, SAFE_DOWNGRADE))
    for name in COMPARED:
        for level in (-1, 0, 1, 2, 3, 7, 30, 32, 33, 34):
            for kind in (0, UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
                yield f"{name} {level}, type {kind}, only tried", update((name, level, kind), dry=True)
    for level in (-1, 0, 2):
        for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            yield f"kraft.version {level}, type {kind}, only tried", update(("kraft.version", level, kind), dry=True)
    yield "an unknown feature, only tried with an unknown type", update(("no.such", 1, 4), dry=True)
    yield "an unknown feature that is raised to 0", update(("no.such", 0, UPGRADE), dry=True)
    yield "one of two is wrong", update((GROUP, 0, SAFE_DOWNGRADE), (TRANSACTION, 9, UPGRADE))
    yield "the same twice", update((GROUP, 0, SAFE_DOWNGRADE), (GROUP, 1, UPGRADE))
    yield "groups without the consumer protocol", update((GROUP, 0, SAFE_DOWNGRADE))
    yield "the same again", update((GROUP, 0, SAFE_DOWNGRADE))
    yield "with the consumer protocol", update((GROUP, 1, UPGRADE))
    for level in (1, 0):
        yield f"transactions of level {level}", update((TRANSACTION, level, SAFE_DOWNGRADE))
    yield "two levels up", update((TRANSACTION, 2, UPGRADE))
    yield "two at once", update((GROUP, 0, UNSAFE_DOWNGRADE), (TRANSACTION, 1, UNSAFE_DOWNGRADE))
    yield "two at once, back", update((GROUP, 1, UPGRADE), (TRANSACTION, 2, UPGRADE))
    yield "the level in force", update((METADATA, 33, UPGRADE))


def _moves() -> Iterable[tuple[str, AlterReplicaLogDirsRequest]]:
    def move(*rows: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
        paths = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, parts)]) for path, topic, parts in rows]
        return AlterReplicaLogDirsRequest(paths)

    yield "no directory", AlterReplicaLogDirsRequest([])
    yield "where it is", move((HERE, "t", [0]))
    yield "an unknown directory", move(("/nowhere", "t", [0]))
    yield "a directory without a root", move(("logs", "t", [0]))
    yield "an empty path", move(("", "t", [0]))
    yield "an unknown partition", move((HERE, "t", [7]))
    yield "a negative partition", move((HERE, "t", [-1]))
    yield "an unknown topic", move((HERE, "none", [0]))
    yield "an unknown topic in an unknown directory", move(("/nowhere", "none", [0]))
    yield "a long name", move((HERE, "x" * 249, [0]))
    yield "a very long name", move(("/nowhere", "x" * 300, [0]))
    yield "an empty name", move((HERE, "", [0]))
    yield "the metadata log", move((HERE, "__cluster_metadata", [0]))
    yield "the same partition in two directories", move((HERE, "t", [0]), ("/nowhere", "t", [0]))
    yield "the same partition in two, the other way", move(("/nowhere", "t", [0]), (HERE, "t", [0, 0]))
    yield "two partitions", move((HERE, "t", [0]), ("/nowhere", "t", [1]))
    yield "a name of 213 characters", move(("/nowhere", "x" * 213, [0]))
    yield "a name that is long for its partition", move(("/nowhere", "x" * 210, [1000]))


def _voters() -> Iterable[tuple[str, Message]]:
    def add(voter: int = 9, cluster: str | None = None, timeout: int = 1_000, *names: str) -> AddRaftVoterRequest:
        listeners = [Listener(name, "127.0.0.1", 9) for name in names or ("CONTROLLER",)]
        return AddRaftVoterRequest(cluster, timeout, voter, b"d" * 16, listeners)

    yield "add a voter", add()
    yield "add a voter to this cluster", add(9, CLUSTER_ID)
    yield "add a voter to another cluster", add(9, "another")
    yield "add the voter that exists", add(1)
    yield "add a negative voter", add(-1)
    yield "add a voter of another listener", add(9, None, 1_000, "OTHER")
    yield "add a voter without listeners", AddRaftVoterRequest(None, 1_000, 9, b"d" * 16, [])
    yield "add a voter without directory", AddRaftVoterRequest(None, 1_000, 9, ZERO_UUID, [])
    yield "add a voter at once", add(9, None, 0)
    yield "add a voter of two listeners", add(9, None, 1_000, "A", "B")
    yield "add a voter to a cluster without a name", add(9, "")
    yield "remove a voter", RemoveRaftVoterRequest(None, 9, b"d" * 16)
    yield "remove a voter of this cluster", RemoveRaftVoterRequest(CLUSTER_ID, 9, b"d" * 16)
    yield "remove a voter of another cluster", RemoveRaftVoterRequest("another", 9, b"d" * 16)
    yield "remove the voter that exists", RemoveRaftVoterRequest(None, 1, ZERO_UUID)
    yield "remove a negative voter", RemoveRaftVoterRequest(None, -1, ZERO_UUID)


def _controllers(where: str) -> Iterable[Exchange]:
    for controller_id in (1, 2, 9, 0, -1, 2**31 - 1, -(2**31)):
        yield Exchange(f"unregister controller {controller_id}, {where}", UnregisterControllerRequest(controller_id), 0)


def _exchanges() -> Iterable[Exchange]:
    yield Exchange("a topic", CreateTopicsRequest([CreatableTopic("t", 2, 1)], 60_000), 7)
    described = ApiVersionsRequest("test", "1")
    for name, update_request in _updates():
        yield Exchange(name, update_request, 2)
        if not update_request.validate_only:
            yield Exchange(f"{name}: the levels", described, 4)
    for old in (0, 1):
        request = update((GROUP, 1, UPGRADE), (TRANSACTION, 2, UPGRADE))
        yield Exchange(f"both in version {old}", request, old)
        yield Exchange(f"refused in version {old}", update((GROUP, 9, UPGRADE), (TRANSACTION, 9, UPGRADE)), old)
        yield Exchange(f"lower in version {old}", update((GROUP, 0, UPGRADE)), old)
    lower = UpdateFeaturesRequest(60_000, [FeatureUpdateKey(GROUP, 0, allow_downgrade=True)])
    yield Exchange("allowed to be lower in version 0", lower, 0)
    yield Exchange("allowed to be lower in version 0: the levels", described, 4)
    for name, move in _moves():
        for version in (1, 2):
            yield Exchange(f"{name}, version {version}", move, version)
    for name, voter in _voters():
        for version in (0, 1) if isinstance(voter, AddRaftVoterRequest) else (0,):
            yield Exchange(f"{name}, version {version}", voter, version)
    yield from _controllers("version 0")


EXCHANGES = list(_exchanges())
CLOSED = "closed"
"""In place of an answer: the connection was closed."""


def values_of(answer: Any) -> Any:
    """An answer as plain data."""
    if isinstance(answer, ApiVersionsResponse):
        return sorted([one.name, one.max_version_level] for one in answer.finalized_features if one.name in COMPARED)
    if isinstance(answer, UpdateFeaturesResponse):
        rows = [[row.feature, row.error_code, row.error_message] for row in answer.results]
        return [answer.error_code, answer.error_message, sorted(rows)]
    if isinstance(answer, AlterReplicaLogDirsResponse):
        return sorted(
            [topic.topic_name, row.partition_index, row.error_code]
            for topic in answer.results
            for row in topic.partitions
        )
    if isinstance(answer, CreateTopicsResponse):
        return [row.error_code for row in answer.topics]
    return [answer.error_code, answer.error_message]


def kafkas() -> dict[str, Any]:
    """What Kafka 4.4 answered, by the name of the exchange."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("kafka_answers.json").read_text())
    return found


def placed(request: Message, directory: str, cluster_id: str) -> Message:
    """The request, with the server's own log directory and cluster id."""
    if isinstance(request, AlterReplicaLogDirsRequest):
        dirs = [AlterReplicaLogDir(directory if one.path == HERE else one.path, one.topics) for one in request.dirs]
        return AlterReplicaLogDirsRequest(dirs)
    if getattr(request, "cluster_id", None) == CLUSTER_ID:
        request = copied(request)
        request.cluster_id = cluster_id
    return request


OF_VERSION_29 = [
    *(
        Exchange(f"{level}, type {kind}, from 29", update((METADATA, level, kind), dry=True), 2)
        for level in (7, 21, 22, 23, 24, 28, 29, 30, 31, 33, 34)
        for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
    ),
    *_controllers("from 29"),
]
"""Requests on a cluster whose metadata.version is 29 (4.2-IV1)."""


async def ask_all(
    address: tuple[str, int], directory: str = "", exchanges: Iterable[Exchange] = EXCHANGES, delay_s: float = 0
) -> dict[str, Any]:
    """The answer to each exchange, each on a connection of its own. `delay_s`: until a broker of Kafka knows levels."""
    found: dict[str, Any] = {}
    cluster_id = ""
    for exchange in (Exchange("", DescribeClusterRequest(), 2), *exchanges):
        await asyncio.sleep(delay_s if exchange.name.endswith("levels") else 0)
        reader, writer = await asyncio.open_connection(*address)
        try:
            request = placed(exchange.request, directory, cluster_id)
            answer = await Client(reader, writer, "test").ask(request, exchange.version)
            if not exchange.name:
                cluster_id = answer.cluster_id
            else:
                found[exchange.name] = [
                    one.replace(cluster_id, CLUSTER_ID) if isinstance(one, str) else one for one in values_of(answer)
                ]
        except asyncio.IncompleteReadError:
            found[exchange.name] = [CLOSED]
        finally:
            writer.close()
    return found
