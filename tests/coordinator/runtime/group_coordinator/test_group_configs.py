"""Configs of groups (KIP-848), from the request that sets them to the answers of live groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.config import ConfigError, load
from muster.coordinator.properties import resource_configs
from muster.coordinator.properties.live import Live
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.muster import Client, connected, running

BROKER, GROUP = 4, 32
BEAT, INTERVAL = "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms"


async def alter(client: Client, kind: int, name: str, **configs: str | None) -> int:
    """Set configs, or unset them (None). Their names have "_" in place of "."."""
    changes = [AlterableConfig(key.replace("_", "."), int(text is None), text) for key, text in configs.items()]
    answer = await client.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, changes)]))
    error: int = answer.responses[0].error_code
    return error


async def beat(client: Client, member: str, epoch: int = 0, group_id: str = "g") -> Any:
    """A heartbeat; with epoch 0 a member joins."""
    request = ConsumerGroupHeartbeatRequest(group_id, member, epoch)
    if not epoch:
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 5_000, ["t"], []
    return await client.ask(request)


async def test_group_configs_apply_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with running(data_dir=tmp_path, topics=["t:2"]) as server, connected(server) as client:
        assert (await beat(client, "m")).heartbeat_interval_ms == 5_000
        assert not await alter(client, GROUP, "g", consumer_heartbeat_interval_ms="7000")
        assert (await beat(client, "m", 2)).heartbeat_interval_ms == 7_000
        assert (await beat(client, "m", group_id="h")).heartbeat_interval_ms == 5_000
        assert await alter(client, GROUP, "g", consumer_heartbeat_interval_ms="4999") == ErrorCode.INVALID_CONFIG
    async with running(data_dir=tmp_path) as server, connected(server) as client:
        assert (await beat(client, "m", 2)).heartbeat_interval_ms == 7_000
        assert not await alter(client, GROUP, "g", consumer_heartbeat_interval_ms=None)
        assert (await beat(client, "m", 2)).heartbeat_interval_ms == 5_000
    # a broker with other bounds: the nearest allowed value counts
    bounds = {"group.consumer.max.heartbeat.interval.ms": "5500"}
    async with running(bounds, data_dir=tmp_path) as server, connected(server) as client:
        assert (await beat(client, "m", 2)).heartbeat_interval_ms == 5_000
    async with running(data_dir=tmp_path) as server, connected(server) as client:
        assert not await alter(client, GROUP, "g", consumer_heartbeat_interval_ms="7000")
    async with running(bounds, data_dir=tmp_path) as server, connected(server) as client:
        assert (await beat(client, "m", 2)).heartbeat_interval_ms == 5_500


async def test_the_brokers_interval_applies_to_groups_without_their_own(tmp_path: Path) -> None:
    name = "group.consumer.assignment.interval.ms"
    async with running({name: "15000"}, data_dir=tmp_path, topics=["t:2"]) as server, connected(server) as client:
        assert (await beat(client, "m")).member_epoch == 2
        assert not await alter(client, BROKER, "", **{name: "0"})
        assert (await beat(client, "n")).member_epoch == 3
        assert not await alter(client, GROUP, "g", **{INTERVAL: "15000"})
        assert (await beat(client, "o")).member_epoch == 3
        assert await alter(client, BROKER, "", **{name: "15001"}) == ErrorCode.INVALID_REQUEST
    async with running({name: "15000"}, data_dir=tmp_path) as server, connected(server) as client:
        assert (await beat(client, "m", group_id="h")).member_epoch == 2
        assert (await beat(client, "n", group_id="h")).member_epoch == 3


def test_group_configs_are_limited_to_the_brokers_bounds() -> None:
    configs = {
        BEAT: "1",
        INTERVAL: "99999",
        "consumer.session.timeout.ms": "x",
        "share.isolation.level": "what",
        "?": "1",
    }
    values = {BEAT: 5_000, INTERVAL: 15_000}
    assert resource_configs.effective_group(configs, Live().value) == (values, [BEAT, INTERVAL])
    assert resource_configs.effective_group({BEAT: "5001"}, Live().value) == ({BEAT: 5_001}, [])


async def test_the_consumer_protocol_can_be_switched_off() -> None:
    name = "group.coordinator.rebalance.protocols"
    async with running({name: "classic,streams"}, topics=["t:2"]) as server, connected(server) as client:
        assert (await beat(client, "m")).error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await client.ask(ConsumerGroupDescribeRequest(["g", "h"]))
        rows = [(row.group_id, row.error_code, row.error_message) for row in described.groups]
        assert rows == [("g", ErrorCode.UNSUPPORTED_VERSION, None), ("h", ErrorCode.UNSUPPORTED_VERSION, None)]
    with pytest.raises(ConfigError, match="leaves out classic, which is always served; add it"):
        load(overrides=[f"{name}=consumer"], in_memory=True)
