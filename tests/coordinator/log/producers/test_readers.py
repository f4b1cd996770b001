"""A client's own reader of committed records sees each committed record once and no other, for any size of reads."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.memory_records import MemoryRecords

from muster.coordinator.log import UnifiedLog
from muster.coordinator.log.records.markers import read_marker
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.producers.histories import History, opened, stored

assert AIOKafkaConsumer  # its module cannot be imported after that of the fetcher


def committed(log: UnifiedLog, stable: int) -> list[int]:
    """The offsets of records below `stable` that are outside transactions, or in a committed one."""
    found: list[int] = []
    open_ones: dict[int, list[int]] = {}
    for header, data in stored(log):
        if header.is_control:
            marker = read_marker(data, header)
            assert marker is not None
            offsets = open_ones.pop(header.producer_id, [])
            found += offsets if marker.is_committed else []
        elif header.is_transactional:
            open_ones.setdefault(header.producer_id, []).append(header.base_offset)
        else:
            found.append(header.base_offset)
    return sorted(offset for offset in found if offset < stable)


def read_by_a_client(log: UnifiedLog, stable: int, draw: random.Random) -> list[int]:
    """What aiokafka gives to its user, from the start on."""
    position, seen = log.start_offset, list[int]()
    while position < stable:
        data = log.read(position, draw.choice([1, 80, 300, 2000]), up_to=stable)
        aborted = at_once(log.producers.aborted_in(position, len(data)))
        at_hand = log.producers.aborted_in_memory(position, len(data))
        assert at_hand is None or at_hand == aborted
        pairs = [(entry.producer_id, entry.first_offset) for entry in aborted]
        records: Any = PartitionRecords(
            ("t", 0), MemoryRecords(data), pairs, position, None, None, True, READ_COMMITTED
        )
        records._consumer_record = lambda _, record: record
        seen += [record.offset for record in records]
        assert records.next_fetch_offset > position
        position = records.next_fetch_offset
    return seen


@pytest.mark.parametrize("block", range(3))
def test_a_read_committed_client_sees_each_committed_record_once(block: int) -> None:
    for seed in range(block * 15, block * 15 + 15):
        history = History(5000 + seed, dies_at=200)
        history.live()
        _, log = opened(history.storage.left_behind(power_cut=False), wait_for_sync=history.wait_for_sync)
        at_once(log.producers.loading())
        stable = log.producers.last_stable_offset(log.end_offset)
        wanted = committed(log, stable)
        for _ in range(3):
            assert read_by_a_client(log, stable, history.draw) == wanted, seed
        start = history.draw.randrange(stable + 1)
        log.delete_records_before(min(start, log.durable_offset))
        seen = read_by_a_client(log, stable, history.draw)
        assert seen == [offset for offset in wanted if offset >= log.start_offset], seed
