"""`OlderBroker`: Muster lists the versions and features that a real broker of that release lists."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.api.registry import SERVED
from muster.protocol.api import ApiKey
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.testcontrol.faults.engine import EVERYTHING
from muster.testcontrol.faults.older_broker import OlderBroker
from tests.support.muster import Client, connected
from tests.support.servers import KafkaServer
from tests.testcontrol.server import controlled

NEWEST = {"4.0": "4.0.0", "4.1": "4.1.0", "4.2": "4.2.0", "4.3": "4.3.1"}
"""A version of each release."""
SINCE_A_PATCH = {"4.0": {ApiKey.JOIN_GROUP: (0, 9)}}
"""Versions that a later patch of the release lists: 4.0.1 serves JoinGroup 0 and 1 again."""
WITH_A_RECEIVER = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""What a Kafka without a receiver of metrics does not list."""
NOT_SERVED = ("streams.version", "eligible.leader.replicas.version")
ASKED = ApiVersionsRequest("c", "1")


def versions(answer: Any) -> dict[int, tuple[int, int]]:
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def features(answer: Any) -> dict[str, int]:
    return {one.name: one.max_version for one in answer.supported_features if one.name not in NOT_SERVED}


@pytest.mark.parametrize("release", NEWEST)
async def test_an_older_broker_lists_what_a_real_broker_of_that_release_lists(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_VERSION", NEWEST[release])
    kafka = KafkaServer(tmp_path / "kafka")
    await asyncio.to_thread(kafka.start)
    try:
        reader, writer = await asyncio.open_connection(*kafka.address)
        theirs = await Client(reader, writer, "c").ask(ASKED, 4)
        writer.close()
    finally:
        await asyncio.to_thread(kafka.stop)
    async with controlled() as server:
        server.faults.add(EVERYTHING, OlderBroker(release))
        async with connected(server.server) as client:
            ours = await client.ask(ASKED, 4)
    expected = {key: row for key, row in versions(theirs).items() if key in SERVED}
    expected |= SINCE_A_PATCH.get(release, {})
    assert {key: row for key, row in versions(ours).items() if key not in WITH_A_RECEIVER} == expected
    assert features(ours) == features(theirs)
