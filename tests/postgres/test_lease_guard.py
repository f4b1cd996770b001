"""A node sends nothing after the end of its lease."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from muster.coordinator.system.clock import ManualClock
from muster.postgres.lease import Lease, LeasedTransport
from muster.postgres.node_messages import ANSWER, NodeMessages
from muster.postgres.store import Mail
from muster.virtual.world import World
from tests.postgres.stores import table_store


class Sent:
    """A transport that notes the written bytes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.parts.append(data)

    def writelines(self, data: list[bytes]) -> None:
        self.parts += data

    def get_write_buffer_size(self) -> int:
        return 7


@pytest.mark.parametrize(("after_ms", "is_sent"), [(0, True), (8_999, True), (9_000, False), (60_000, False)])
def test_an_answer_leaves_within_the_lease(after_ms: int, is_sent: bool) -> None:
    clock, sent, ended = ManualClock(), Sent(), list[int]()
    lease = Lease(9_000, clock.mono_ms())
    transport: Any = LeasedTransport(sent, lambda: ended.append(1), clock, lease)
    clock.advance(after_ms)
    transport.write(b"one")
    transport.writelines([b"two", b"three"])
    assert sent.parts == ([b"one", b"two", b"three"] if is_sent else [])
    assert ended == ([] if is_sent else [1, 1])
    assert transport.get_write_buffer_size() == 7


async def test_another_node_gets_no_answer_after_the_lease() -> None:
    store, is_over = table_store(World(Random(1))), False
    messages = NodeMessages(1, store, ManualClock(), lambda: is_over)
    question = Mail("m", 2, 2, b"{}")
    await store.send([(1, question)])
    is_over = True
    await messages.check()
    assert store.tables.boxes[1] == [question]  # the registration belongs to its successor
    messages._out.append((2, Mail("m", 1, ANSWER, b"[]")))
    await messages._sending()
    assert 2 not in store.tables.boxes
    is_over = False
    messages._out.append((2, Mail("m", 1, ANSWER, b"[]")))
    await messages._sending()
    assert len(store.tables.boxes[2]) == 1
