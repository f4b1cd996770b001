"""A few kills while a share group works off a queue; `make torture` does many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers import QUICK, MusterServer
from tests.torture.queue import PARTITIONS, SETTINGS, TOPIC, Queue, QueueLedger, Record

KILLS = 2


@pytest.mark.timeout(240)
async def test_kills_lose_no_record_and_no_acceptance(tmp_path: Path) -> None:
    server = MusterServer(tmp_path, {**QUICK, **SETTINGS}, arguments=["--topic", f"{TOPIC}:{PARTITIONS}"])
    server.start()
    try:
        queue = Queue(server, seed=7)
        assert await queue.run(KILLS) == []
        assert queue.ledger.produced
        assert queue.ledger.accepted
    finally:
        server.stop()


def test_a_record_that_is_delivered_after_its_acceptance_is_detected() -> None:
    ledger = QueueLedger()
    ledger.delivered(Record(0, 1))
    ledger.accepted.add(Record(0, 1))
    ledger.delivered(Record(0, 1))
    assert ledger.faults == [f"{Record(0, 1)} was accepted, and is delivered again"]


def test_a_record_that_was_never_accepted_is_detected() -> None:
    ledger = QueueLedger()
    ledger.produced |= {Record(0, 1), Record(0, 2)}
    ledger.sent.add(Record(0, 1))
    ledger.ended()
    assert ledger.faults == [f"1 records were delivered to nobody who accepted them: [{Record(0, 2)}]"]
