"""The same commands at the same times give the same outputs, whatever the hash seed is."""

from __future__ import annotations

import random

from muster.protocol.records import TRANSACTION_STATE
from tests.coordinator.transactions.harness import TransactionHarness


def history(seed: int) -> list[str]:
    """All outputs of a random history, as text."""
    chance, harness = random.Random(seed), TransactionHarness()
    answers: list[object] = []
    for _ in range(300):
        name = chance.choice("xyz")
        one = harness.core.state.transactions.get(name)
        producer = (0, 0) if one is None else (one.producer_id, one.producer_epoch - (chance.random() < 0.1))
        action = chance.randrange(6)
        if action == 0:
            answers.append(harness.init(name, timeout_ms=chance.choice([1_000, 60_000])))
        elif action < 3:
            topics = {topic: chance.sample(range(9), 4) for topic in chance.sample(["t", "u", "v", "w"], 3)}
            answers.append(harness.add(producer, topics, transactional_id=name, version=2))
        elif action == 3:
            answers.append(harness.end(producer, commit=chance.random() < 0.5, transactional_id=name))
        elif action == 4:
            harness.advance(chance.choice([1, 3_000]))
        elif harness.markers:
            harness.written(chance.choice(sorted(harness.markers)))
    answers += [harness.describe("x", "y", "z"), harness.list()]
    records = [
        TRANSACTION_STATE.encode_key(record.key)
        + (b"" if record.value is None else TRANSACTION_STATE.encode_value(record.value, record.value_version))
        for record in harness.records
    ]
    return [repr(one) for one in (*answers, *records, *harness.events)]


def test_the_same_commands_give_the_same_outputs() -> None:
    assert history(1) == history(1)
    assert len(history(1)) > 300
