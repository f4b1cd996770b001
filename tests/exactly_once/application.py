"""Checks an application that reads, processes and writes in transactions; the segments are the evidence.

Every record of the input is in the output exactly once. Each commit of an offset belongs to the transaction that wrote
the outputs since the commit before it. At the end everything is committed.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tests.exactly_once.checker import Checker
from tests.exactly_once.segments import OFFSETS, Place, offset_record


class Output(NamedTuple):
    """A record of the output: the parts of its value."""

    partition: int
    offset: int
    number: int
    worker: str


def output(value: bytes) -> Output:
    """`PARTITION:OFFSET:NUMBER:WORKER`, as the workers write it."""
    partition, offset, number, worker = value.decode().split(":")
    return Output(int(partition), int(offset), int(number), worker)


def shown(checker: Checker, topic: str) -> dict[tuple[int, int], bytes]:
    """What a consumer with read_committed must get of a topic, by partition and offset."""
    return {
        (place.partition, record.offset): record.value or b""
        for place, partition in checker.partitions.items()
        if place.topic == topic
        for _, record in partition.committed
    }


def judge(checker: Checker, group: str, input_topic: str, output_topic: str) -> list[str]:
    """The violations, as sentences."""
    faults: list[str] = []
    numbers = {
        (place.partition, record.offset): int(record.value or b"")
        for place, partition in checker.partitions.items()
        if place.topic == input_topic
        for _, record in partition.committed
    }
    writers: dict[tuple[int, int], tuple[int, int]] = {}
    counted: Counter[tuple[int, int]] = Counter()
    for place, partition in checker.partitions.items():
        if place.topic != output_topic:
            continue
        for batch, record in partition.committed:
            made = output(record.value or b"")
            source = (made.partition, made.offset)
            counted[source] += 1
            writers[source] = (batch.producer_id, batch.producer_epoch)
            if numbers.get(source) != made.number:
                faults.append(f"{place} at {record.offset}: {made} was never in the input")
    missing = [source for source in numbers if not counted[source]]
    twice = [source for source, count in counted.items() if count > 1]
    if missing:
        faults.append(f"{len(missing)} records were never counted, first {sorted(missing)[:5]}")
    if twice:
        faults.append(f"{len(twice)} records were counted twice, first {sorted(twice)[:5]}")
    return faults + _offsets(checker, group, input_topic, writers)


def _offsets(checker: Checker, group: str, topic: str, writers: dict[tuple[int, int], tuple[int, int]]) -> list[str]:
    faults: list[str] = []
    reached: dict[Place, int] = {}
    for place, partition in checker.partitions.items():
        if place.topic != OFFSETS:
            continue
        for batch, record in partition.committed:
            row = offset_record(record)
            if row is None or row.group != group or row.place.topic != topic or row.offset is None:
                continue
            producer, before = (batch.producer_id, batch.producer_epoch), reached.get(row.place, 0)
            if row.offset < before:
                faults.append(f"{row.place}: committed {before}, then {row.offset}")
            for offset in range(before, row.offset):
                writer = writers.get((row.place.partition, offset))
                if writer is not None and writer != producer:
                    faults.append(f"{row.place} at {offset}: written by {writer}, committed by {producer}")
            reached[row.place] = row.offset
    for place, partition in checker.partitions.items():
        if place.topic == topic and partition.end != reached.get(place, 0):
            faults.append(f"{place}: {partition.end} records, committed are {reached.get(place)}")
    return faults
