"""A few kills while consumers of both protocols work; `make torture` does many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers import QUICK, MusterServer
from tests.torture.mixed import PARTITIONS, SETTINGS, TOPIC, Mixed

KILLS = 2


@pytest.mark.timeout(240)
def test_kills_move_no_partition_of_consumers_of_both_protocols(tmp_path: Path) -> None:
    server = MusterServer(tmp_path, {**QUICK, **SETTINGS}, arguments=["--topic", f"{TOPIC}:{PARTITIONS}"])
    server.start()
    try:
        mixed = Mixed(server, seed=7)
        assert mixed.run(KILLS) == []
        assert len(mixed.ledger.acknowledged) == PARTITIONS
    finally:
        server.stop()
