"""Unchanged clients continue while the brokers of a cluster stop, die and return."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.nodes_story import check, cluster, play
from tests.e2e.workers import PATIENCE_S, WORKERS


@pytest.mark.timeout(300)
async def test_clients_lose_and_repeat_nothing_while_brokers_stop_and_return(tmp_path: Path) -> None:
    async with cluster(tmp_path) as server:
        workers = await play(server, [*WORKERS], changes=4, seed=3)
        await check(server, workers)
    assert max(one.longest_s for one in workers.values()) < PATIENCE_S
