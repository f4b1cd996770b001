"""Ten kills under load; `make torture` does a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers import QUICK, MusterServer
from tests.torture.kills import PARTITIONS, TOPIC, Killing
from tests.torture.ledger import Ledger, Place

KILLS = 10


@pytest.mark.timeout(300)
async def test_kills_lose_no_acknowledged_commit_and_cause_no_rebalance(tmp_path: Path) -> None:
    server = MusterServer(tmp_path, QUICK, arguments=["--topic", f"{TOPIC}:{PARTITIONS}"])
    server.start()
    try:
        killing = Killing(server, seed=7)
        assert await killing.run(KILLS) == []
        assert sum(map(len, killing.churner.reported.values())) > KILLS
        assert len(killing.ledger.acknowledged) == PARTITIONS + len(killing.committers)
    finally:
        server.stop()


@pytest.mark.timeout(300)
async def test_a_server_that_loses_its_data_is_detected(tmp_path: Path) -> None:
    server = MusterServer(tmp_path, QUICK, in_memory=True, arguments=["--topic", f"{TOPIC}:{PARTITIONS}"])
    server.start()
    try:
        faults = await Killing(server, seed=7).run(1)
    finally:
        server.stop()
    assert any("was acknowledged, nothing is there" in fault for fault in faults)
    assert any("its members were" in fault for fault in faults)
    assert any("the history lacks" in fault for fault in faults)


def test_lost_old_and_unrequested_commits_are_detected() -> None:
    ledger, one, two, three = Ledger(), Place("g", "t", 0), Place("g", "t", 1), Place("g", "t", 2)
    for place in (one, two, three):
        for _ in range(3):
            ledger.acknowledge(place, ledger.attempt(place))
    ledger.judge(dict(ledger.acknowledged), {one: 3, two: 4, three: 2})
    assert ledger.faults == [f"{two}: 4 is there, which nobody committed", f"{three}: 3 was acknowledged, 2 is there"]
    ledger.judge(dict(ledger.acknowledged), {one: 3, two: 3})
    assert ledger.faults[2:] == [f"{three}: 3 was acknowledged, nothing is there"]
