"""Histories of share groups: random requests of members, and what a broker answers to them.

A history is plain data. `kafka_histories.json.gz` has what Kafka 4.4.0 answered
(`tests/conformance/test_share_histories.py` records it); `test_histories.py` plays the same requests to a node.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from muster.coordinator.log import batches
from muster.protocol.message import Message
from muster.protocol.messages import share_acknowledge, share_fetch
from tests.coordinator.topics.support import batch

GOLDEN: Final = Path(__file__).with_name("kafka_histories.json.gz")
FETCH, ACKNOWLEDGE, PRODUCE, DISCONNECT = "fetch", "acknowledge", "produce", "disconnect"
UNKNOWN_PARTITION: Final = 9
BROKEN: Final = -1
"""The error of a request with which Kafka has a NullPointerException."""

Step = dict[str, Any]
"""`do`, and what it is done with. A request has `answer` once it was asked."""


def recorded() -> list[dict[str, Any]]:
    """The histories of Kafka: `configs`, `partitions`, `steps`."""
    found: list[dict[str, Any]] = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    return found


def records(count: int) -> bytes:
    """A record batch as PRODUCE appends it."""
    return batch(*[b"v%d" % number for number in range(count)])


def request(step: Step, group: str, topic_id: bytes) -> Message:
    """The request of a step."""
    rows = dict.fromkeys(step["rows"], ())
    rows.update({int(number): some for number, some in step["acks"].items()})
    more = {"group_id": group, "member_id": step["member"], "share_session_epoch": step["epoch"], **step["fields"]}
    if step["do"] == ACKNOWLEDGE:
        of_ack = share_acknowledge
        parts = [
            of_ack.AcknowledgePartition(number, [of_ack.AcknowledgementBatch(*one) for one in some])
            for number, some in rows.items()
        ]
        return of_ack.ShareAcknowledgeRequest(
            topics=[of_ack.AcknowledgeTopic(topic_id, parts)] if parts else (), **more
        )
    of_fetch = share_fetch
    wanted = [
        of_fetch.FetchPartition(number, 0, [of_fetch.AcknowledgementBatch(*one) for one in some])
        for number, some in rows.items()
    ]
    forgotten = [of_fetch.ForgottenTopic(topic_id, step["forget"])] if step["forget"] else ()
    topics = [of_fetch.FetchTopic(topic_id, wanted)] if wanted else ()
    return of_fetch.ShareFetchRequest(topics=topics, forgotten_topics_data=forgotten, **more)


def answer_of(response: Any) -> dict[str, Any]:
    """The parts of an answer that are compared. Rows are sorted, since Kafka's have the order of a hash table."""
    rows = []
    for topic in response.responses:
        for row in topic.partitions:
            if isinstance(row, share_acknowledge.PartitionData):
                rows.append([row.partition_index, row.error_code, row.error_message])
                continue
            spans = [[header.base_offset, header.last_offset] for header, _ in batches.read(bytes(row.records or b""))]
            acquired = [[one.first_offset, one.last_offset, one.delivery_count] for one in row.acquired_records]
            outcome = [row.acknowledge_error_code, row.acknowledge_error_message]
            rows.append([row.partition_index, row.error_code, *outcome, spans, acquired])
    return {"error": response.error_code, "lock": response.acquisition_lock_timeout_ms, "rows": sorted(rows)}


class Drawing:
    """Draws the steps of one history. The answers decide what members can acknowledge."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.partitions = rng.choice([1, 1, 2])
        self.configs = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": rng.choice(["2", "3", "5"]),
            "share.partition.max.record.locks": rng.choice(["200", "2000"]),
            "share.record.lock.duration.ms": "15000",
            "share.isolation.level": rng.choice(["read_committed", "read_uncommitted"]),
        }
        self._members = [f"m{number}" for number in range(rng.choice([1, 2, 3]))]
        self._epochs: dict[str, int] = {}
        self._held: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._ends = [0] * self.partitions

    def produce(self) -> Step:
        """Append a batch of records."""
        number, count = self._rng.randrange(self.partitions), self._rng.choice([1, 1, 2, 5, 30])
        self._ends[number] += count
        return {"do": PRODUCE, "partition": number, "count": count}

    def step(self) -> Step:
        """Draw the next step."""
        rng = self._rng
        kind, member = rng.random(), rng.choice(self._members)
        if kind < 0.15:
            return self.produce()
        if kind < 0.2:
            self._forget(member)
            return {"do": DISCONNECT, "member": member}
        epoch = self._epochs.get(member, 0)
        sent = rng.choice([-1, 0, epoch + 1, 77]) if rng.random() < 0.04 else epoch
        rows = list(range(self.partitions)) if epoch == 0 or rng.random() < 0.2 else []
        if rng.random() < 0.03:
            rows.append(UNKNOWN_PARTITION)
        acks: dict[str, Any] = {}
        if rng.random() < (0.55 if epoch else 0.05):
            some = rng.sample(range(self.partitions), rng.randint(1, self.partitions))
            acks = {str(number): self._acknowledgements(member, number) for number in some}
        is_alone = epoch != 0 and bool(acks) and rng.random() < 0.35
        version = rng.choice([1, 2, 2])
        fields: dict[str, Any] = {} if is_alone else self._limits(epoch, version)
        if not is_alone:  # on Kafka, records that a fetch has released may be there for the same fetch, or not
            acks = {n: [(a, b, [1 if t == 2 else t for t in ts]) for a, b, ts in some] for n, some in acks.items()}
        if version == 2 and acks and rng.random() < 0.08:
            fields["is_renew_ack"] = True
            acks = {n: [(a, b, [4] if rng.random() < 0.7 else ts) for a, b, ts in some] for n, some in acks.items()}
            if not is_alone and rng.random() < 0.8:
                fields.update(max_bytes=0, min_bytes=0, max_records=0, max_wait_ms=0)
        forget = [rng.randrange(self.partitions)] if rng.random() < 0.03 and not is_alone else []
        return {
            "do": ACKNOWLEDGE if is_alone else FETCH,
            "member": member,
            "epoch": sent,
            "rows": [] if is_alone else rows,
            "acks": acks,
            "forget": forget,
            "version": version,
            "fields": fields,
        }

    def _limits(self, epoch: int, version: int) -> dict[str, Any]:
        """The limits of a fetch. The order of two partitions that share a limit is that of a hash table on Kafka."""
        rng, is_alone = self._rng, self.partitions == 1
        fields: dict[str, Any] = {
            "max_wait_ms": rng.choice([0, 150]) if epoch else 400,
            "min_bytes": rng.choice([1, 1, 0]),
            "max_bytes": rng.choice([1 << 20, 1 << 20, 400, 100]) if is_alone else 1 << 20,
            "max_records": rng.choice([1, 2, 5, 10, 500]) if is_alone else 500,
            "batch_size": rng.choice([1, 2, 10, 500]),
        }
        if version == 2:
            fields["share_acquire_mode"] = rng.choice([0, 0, 1])
        return fields

    def _acknowledgements(self, member: str, number: int) -> list[tuple[int, int, list[int]]]:
        rng = self._rng
        known = list(self._held.get((member, number), ()))
        rng.shuffle(known)
        places: list[tuple[int, int]] = []
        if known and rng.random() < 0.85:
            for first, last in sorted(known[: rng.choice([1, 1, 2])]):
                at = rng.randint(first, last)
                places.append(rng.choice([(first, at), (at, last)]) if rng.random() < 0.4 else (first, last))
        else:
            first = rng.randint(0, max(self._ends[number], 1))
            places.append((first, first + rng.choice([0, 1, 4])))
        found = []
        for first, last in places:
            types = [rng.choice([1, 1, 1, 2, 2, 3, 0])]
            if rng.random() < 0.25:
                types = [rng.choice([1, 2, 3, 0]) for _ in range(first, last + 1)]
            if rng.random() < 0.03:
                types = [*types, 1]
            if rng.random() < 0.02:
                types = [9]
            found.append((first, last, types))
        return found

    def note(self, step: Step) -> None:
        """Note what was answered."""
        answer, member = step["answer"], step["member"]
        if answer["error"]:
            return
        if step["epoch"] == -1:
            self._forget(member)
            return
        self._epochs[member] = step["epoch"] + 1
        if step["do"] == FETCH:
            for number, *_, acquired in answer["rows"]:
                self._held.setdefault((member, number), []).extend((first, last) for first, last, _ in acquired)

    def _forget(self, member: str) -> None:
        self._epochs.pop(member, None)
        self._held = {key: some for key, some in self._held.items() if key[0] != member}


def difference(steps: Sequence[Step], answers: Sequence[Any]) -> str | None:
    """Describe the first request with another answer than the recorded one. None: all are equal."""
    for number, (step, answer) in enumerate(zip(steps, answers, strict=True)):
        if answer is not None and answer != step["answer"]:
            return f"step {number}: {step}\nanswered: {answer}"
    return None
