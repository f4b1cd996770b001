"""One iteration of asyncio's loop serves few ready sockets, and serves none twice and forgets none."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from muster.coordinator.system import clock as clock_module
from muster.coordinator.system import event_loop
from muster.coordinator.system.clock import LoopClock
from muster.coordinator.system.event_loop import EVENTS_AT_ONCE, FewEvents, ServerLoop

COUNT = 2 * EVENTS_AT_ONCE + 20

Pairs = list[tuple[socket.socket, socket.socket]]


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    """Sockets, each with a byte to read."""
    pairs = [socket.socketpair() for _ in range(COUNT)]
    for ours, theirs in pairs:
        ours.setblocking(False)
        theirs.send(b"x")
    yield pairs
    for pair in pairs:
        for one in pair:
            one.close()


def test_an_iteration_serves_few_of_many_ready_sockets(pairs: Pairs) -> None:
    """9,000 connections that were ready together were once served in one iteration."""
    served: list[int] = []
    in_iterations: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number, (ours, _) in enumerate(pairs):
            loop.add_reader(ours, lambda number=number, ours=ours: (served.append(number), ours.recv(1)))
        while len(served) < COUNT:
            before = len(served)
            await asyncio.sleep(0)
            in_iterations.append(len(served) - before)
        for ours, _ in pairs:
            loop.remove_reader(ours)

    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        runner.run(main())
    assert max(in_iterations) == EVENTS_AT_ONCE
    assert Counter(served) == Counter(range(COUNT))


def test_the_rest_comes_before_the_system_is_asked_again(pairs: Pairs) -> None:
    selector = FewEvents()
    for ours, _ in pairs:
        selector.register(ours, 1, None)
    found = [[key.fileobj for key, _ in selector.select(0)] for _ in range(3)]
    assert [len(one) for one in found] == [EVENTS_AT_ONCE, EVENTS_AT_ONCE, 20]
    assert len({one for part in found for one in part}) == COUNT
    selector.close()


def test_a_socket_that_was_closed_or_changed_meanwhile_is_left_out(pairs: Pairs) -> None:
    selector = FewEvents()
    for ours, _ in pairs:
        selector.register(ours, 1, None)
    first = {key.fileobj for key, _ in selector.select(0)}
    closed, changed, *_ = [ours for ours, _ in pairs if ours not in first]
    selector.unregister(closed)
    selector.modify(changed, 2, None)
    rest = {key.fileobj for _ in range(2) for key, _ in selector.select(0)}
    assert rest == {ours for ours, _ in pairs} - first - {closed, changed}
    assert {key.fileobj: events for _ in range(3) for key, events in selector.select(0)}[changed] == 2
    selector.close()


def test_a_late_timer_waits_until_each_ready_socket_is_served(pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the member whose heartbeat is the last of many would expire."""
    monkeypatch.setattr(event_loop, "EVENTS_AT_ONCE", 10)
    monkeypatch.setattr(clock_module, "PROMPT_MS", -1)  # each timer is late
    happened: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        for ours, _ in pairs:
            loop.add_reader(ours, lambda ours=ours: happened.append(ours.recv(1).decode()))
        rang = loop.create_future()
        clock.call_at(clock.mono_ms(), lambda: (happened.append("timer"), rang.set_result(None)))
        await rang
        for ours, _ in pairs:
            loop.remove_reader(ours)

    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        runner.run(main())
    assert happened == ["x"] * COUNT + ["timer"]
