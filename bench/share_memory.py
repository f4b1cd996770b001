"""`python -m bench.share_memory` measures the memory of a million records in flight, by how much the process grows.

There are 500 share partitions with 2,000 records each. No record has the state of the record beside it, or each was
produced alone. So each has a state of its own. Also measured is the longest step of one request about 2,000 records.
"""

from __future__ import annotations

import gc
import itertools
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from bench.memory import resident_bytes
from muster.coordinator.share.acknowledge import ACCEPTED, RELEASED, Acknowledgement, acknowledge
from muster.coordinator.share.acquire import Wish, acquire
from muster.coordinator.share.in_flight import Row, Span
from muster.coordinator.share.partition import Change, Settings, SharePartition
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.share_state.state import States, snapshot_record
from tests.support.servers import REPOSITORY

PARTITIONS: Final = 500
RECORDS: Final = 2_000
USED: Final = 20
"""How many partitions are in use at the same time; the others are packed."""
MEMBER: Final = "m" * 22
SETTINGS: Final = Settings(RECORDS, 5, 30_000, may_renew=True, has_dead_letters=False)


def one_batch(at: int) -> SharePartition:
    """A partition whose records were delivered at once."""
    partition = SharePartition(SETTINGS)
    partition.load(at, [])
    acquire(partition, Wish(MEMBER, RECORDS, RECORDS, False), [Span(at, at + RECORDS - 1)], at, 0)
    return partition


def each_alone(at: int) -> tuple[SharePartition, list[Row]]:
    """Records that were produced alone, and delivered one after the other."""
    partition = SharePartition(SETTINGS)
    partition.load(at, [])
    for offset in range(at, at + RECORDS):
        acquire(partition, Wish(MEMBER, 1, 1, False), [Span(offset, offset)], offset, offset - at)
    return partition, []


def alternating(at: int) -> tuple[SharePartition, list[Row]]:
    """Every second record is accepted, the others are released."""
    partition = one_batch(at)
    change = acknowledge(partition, MEMBER, [_alternating(at)], 0)
    assert isinstance(change, Change)
    partition.complete(change, 0, is_durable=True)
    return partition, change.rows


def _alternating(at: int) -> Acknowledgement:
    return Acknowledgement(at, at + RECORDS - 1, [RELEASED, ACCEPTED] * (RECORDS // 2))


def grown_mb(made: Callable[[int], tuple[SharePartition, list[Row]]]) -> float:
    """The memory of the partitions, and of their states in the share coordinator."""
    states, kept = States(500), [made(0)[0]]
    in_use: deque[SharePartition] = deque()
    gc.collect()
    before = resident_bytes()
    for number in range(1, PARTITIONS + 1):
        partition, rows = made(number * RECORDS)
        kept.append(partition)
        record = snapshot_record(
            StateKey("payments", bytes(16), number), snapshot_epoch=0, state_epoch=0, leader_epoch=0,
            start_offset=partition.start_offset, done_count=0, created_ms=0, written_ms=0, rows=rows,
        )  # fmt: skip
        states.evolve(record.key, record.value)
        in_use.append(partition)
        if len(in_use) > USED:
            _rest(in_use.popleft())
    for partition in in_use:
        _rest(partition)
    gc.collect()
    return (resident_bytes() - before) / 1e6


def _rest(partition: SharePartition) -> None:
    partition.rest()
    partition.rest()


def longest_step_ms() -> float:
    """The longest step of an acknowledgement of alternating types, the best of some."""
    found = []
    for _ in range(10):
        partition = one_batch(0)
        times = [time.perf_counter()]
        change = acknowledge(partition, MEMBER, [_alternating(0)], 0)
        times.append(time.perf_counter())
        assert isinstance(change, Change)
        partition.complete(change, 0, is_durable=True)
        times.append(time.perf_counter())
        _rest(partition)
        times.append(time.perf_counter())
        partition.next_offset()
        times.append(time.perf_counter())
        found.append(max(after - before for before, after in itertools.pairwise(times)))
    return min(found) * 1_000


MEASURES: Final[Mapping[str, Callable[[], float]]] = {
    "a million records in flight, each produced and delivered alone: MB": lambda: grown_mb(each_alone),
    "a million records in flight, of alternating states: MB": lambda: grown_mb(alternating),
    "2,000 records of alternating types are acknowledged, longest step: ms": longest_step_ms,
}


def main() -> None:
    """Print one figure by its name (as JSON), or all figures, each measured in a process of its own."""
    if len(sys.argv) > 1:
        print(json.dumps(MEASURES[sys.argv[1]]()))
        return
    for name in MEASURES:
        done = subprocess.run(
            [sys.executable, "-m", "bench.share_memory", name], cwd=REPOSITORY, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        print(f"{name}: {json.loads(done.stdout):.1f}")


if __name__ == "__main__":
    main()
