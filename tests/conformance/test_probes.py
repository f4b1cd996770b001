"""The raw probes on a real Kafka: one that fails there would be a false alarm."""

from __future__ import annotations

import asyncio
from pathlib import Path

from muster.conform.probes import asking, run_probes
from muster.conform.probes.link import plain
from muster.conform.results import State
from tests.support.servers import KafkaServer

TIMES = 3


async def test_kafka_answers_every_probe_as_recorded(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path)
    await asyncio.to_thread(server.start)
    host, port = server.bootstrap.split(":")
    try:
        for _ in range(TIMES):
            versions = await asking.advertised(lambda: plain(host, int(port)))
            outcomes, left = await run_probes(lambda: plain(host, int(port)), versions, may_alter=True)
            assert [one for one in outcomes if one.state in (State.FAILED, State.FLAKY)] == []
            assert left == []
            assert len(outcomes) >= 650
    finally:
        await asyncio.to_thread(server.stop)
