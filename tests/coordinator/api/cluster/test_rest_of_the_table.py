"""UpdateFeatures, AlterReplicaLogDirs, AddRaftVoter, RemoveRaftVoter, UnregisterController: each answer is Kafka's."""

from __future__ import annotations

import json
from pathlib import Path

from muster.coordinator.api.registry import SERVED
from muster.coordinator.server import Server
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.features import METADATA
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from tests.coordinator.api.cluster.exchanges import (
    EXCHANGES,
    GROUP,
    OF_VERSION_29,
    SAFE_DOWNGRADE,
    TRANSACTION,
    UPGRADE,
    Exchange,
    ask_all,
    kafkas,
    update,
    values_of,
)
from tests.support.muster import connected, running


async def answers(server: Server, exchanges: list[Exchange]) -> dict[str, object]:
    bound = server.bound[0]
    return await ask_all((bound.host, bound.port), "memory", exchanges)


async def test_each_answer_is_kafkas() -> None:
    async with running() as server:
        found = await answers(server, EXCHANGES)
    known = kafkas()
    for name, answer in found.items():
        assert answer == known[name], name


async def test_an_older_metadata_version_answers_as_kafkas() -> None:
    async with running() as server:
        at_once(server.node.topics.writing([FeatureLevelRecord(METADATA, 29)]))
        found = await answers(server, OF_VERSION_29)
    known = kafkas()
    for name, answer in found.items():
        assert answer == known[name], name


async def test_group_version_0_refuses_the_consumer_protocol_at_once() -> None:
    beat = ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"])
    beat.topic_partitions = []
    async with running(topics=["t:1"]) as server, connected(server) as member, connected(server) as admin:
        joined = await member.ask(beat)
        assert joined.error_code == 0
        again = ConsumerGroupHeartbeatRequest("g", "m", joined.member_epoch)
        for _ in range(5):
            assert (await member.ask(again)).error_code == 0
        assert values_of(await admin.ask(update((GROUP, 0, SAFE_DOWNGRADE)))) == [0, None, []]
        for _ in range(9):  # what repeats is cached, but not this
            assert (await member.ask(again)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert values_of(await admin.ask(update((GROUP, 1, UPGRADE)))) == [0, None, []]
        assert (await member.ask(again)).error_code == 0


async def test_feature_levels_survive_a_restart(tmp_path: Path) -> None:
    async with running(data_dir=tmp_path) as server, connected(server) as admin:
        await admin.ask(update((GROUP, 0, SAFE_DOWNGRADE), (TRANSACTION, 1, SAFE_DOWNGRADE)))
    async with running(data_dir=tmp_path) as server, connected(server) as admin:
        answer = await admin.ask(ApiVersionsRequest("test", "1"))
    assert values_of(answer) == [["metadata.version", 33], ["transaction.version", 1]]


async def test_kraft_version_stays_0() -> None:
    async with running() as server, connected(server) as admin:
        answer = await admin.ask(update(("kraft.version", 1, UPGRADE)))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message.endswith("because not all of the voters support it")


def test_every_request_of_kafka_is_served() -> None:
    versions = Path(__file__).resolve().parents[3] / "golden" / "versions.json"
    kafkas_keys = {row["key"] for row in json.loads(versions.read_text())["apis"]}
    assert kafkas_keys - set(SERVED) == set()
