"""Random consumer groups of many topics: Muster's core writes the records that Kafka 4.4 writes, byte for byte.

The order within targets depends on hash tables of topic ids, and so on all earlier records of a group. Kafka draws the
topic ids, so each run is another one. `MUSTER_HISTORIES=20` plays more than the usual four. In current assignments the
order is not compared (docs/conformance.md).
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from muster.conform.player import readiness
from muster.conform.player.brokers import connect
from muster.conform.player.story import Story
from muster.coordinator.state_machine.interface import Record
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from muster.protocol.records import OFFSETS, encode_record
from tests.stories.group_records import Kept, Pair, described, ours, play, records_of, without_times
from tests.support.servers import KafkaServer

HISTORIES = int(os.environ.get("MUSTER_HISTORIES", "4"))
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
ACTORS = "ABCDE"
STEPS = 60


def draw_story(rng: random.Random) -> str:
    """A story of members that join and leave, and change their topics and assignors."""
    sizes = {f"t{number}": rng.choice([1, 1, 2, 3, 5, 18, 21]) for number in range(rng.randint(3, 18))}
    lines = ["broker " + " ".join(f"{name}={value}" for name, value in SETTINGS.items() if name.startswith("group."))]
    lines += ["own-topics " + " ".join(f"{name}={size}" for name, size in sizes.items()), "", "advance 3000"]
    present: list[str] = []

    def some() -> str:
        names = list(sizes) if rng.random() < 0.6 else rng.sample(list(sizes), rng.randint(1, len(sizes)))
        return ",".join(sorted(names))

    for _ in range(STEPS):
        actor, way = rng.choice(ACTORS), rng.random()
        if actor not in present:
            present.append(actor)
            lines.append(f"{actor}: consumer-heartbeat epoch=0 topics={some()} rebalance=60000 owned=none")
        elif way < 0.1 and len(present) > 1:
            present.remove(actor)
            lines.append(f"{actor}: consumer-heartbeat epoch=-1")
        elif way < 0.2:
            lines.append(f"{actor}: consumer-heartbeat topics={some()} owned=mine")
        elif way < 0.25:
            assignor = rng.choice(["range", "uniform"])
            lines += [f"{one}: consumer-heartbeat assignor={assignor} owned=mine" for one in present]
        lines += [f"{one}: consumer-heartbeat owned=mine" for one in present for _ in range(2) if rng.random() < 0.6]
    for number, line in enumerate(lines):
        actor, colon, _ = line.partition(":")
        lines[number] = f"{line}\n    {actor} <- its answer" if colon else line  # which is waited for
    return "\n".join(lines) + "\n"


async def played(server: KafkaServer, log: Path, texts: list[str]) -> list[Kept]:
    """The stories as Kafka plays them, with the records that it writes."""
    host, port = server.address
    runner = await connect(host, port)
    known: readiness.Ready = {}
    found = []
    for text in texts:
        story = Story("drawn.txt", text)
        one = await play(host, port, story, await readiness.prepare(runner, known, story))
        pairs = [pair for group, pair in records_of(log) if group.endswith(one.chance.suffix)]
        found.append(one._replace(records=pairs))
    await runner.close()
    return found


def test_records_of_groups_with_many_topics_are_those_of_kafka(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    rng = random.Random(seed)
    server = KafkaServer(tmp_path, SETTINGS)
    server.start()
    try:
        (log,) = tmp_path.rglob("__consumer_offsets-0")
        found = asyncio.run(played(server, log, [draw_story(rng) for _ in range(HISTORIES)]))
    finally:
        server.kill()
    for number, one in enumerate(found):
        made = [compared(pair) for pair in ours(Story("drawn.txt", one.text), one.chance)]
        wanted = [compared(pair) for pair in one.records]
        assert [described(pair) for pair in made] == [described(pair) for pair in wanted], (seed, number, one.text)
        assert made == wanted
        assert len(wanted) > STEPS


def compared(pair: Pair) -> Pair:
    """The record without times, and a current assignment in ascending order."""
    key, value = without_times(pair)
    record_type, key_message = OFFSETS.decode_key(key)
    if value is None or not isinstance(key_message, ConsumerGroupCurrentMemberAssignmentKey):
        return key, value
    version, message = OFFSETS.decode_value(record_type, value)
    for rows in (message.assigned_partitions, message.partitions_pending_revocation):
        rows.sort(key=lambda row: row.topic_id)
        for row in rows:
            pairs = sorted(zip(row.partitions, row.assignment_epochs, strict=True))
            row.partitions, row.assignment_epochs = [one for one, _ in pairs], [epoch for _, epoch in pairs]
    return encode_record(OFFSETS, Record(key_message, message, version))
