from __future__ import annotations

from random import Random
from typing import Any

from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.simulation.actor import Actor, Script
from muster.virtual.world import VirtualClock, World


class Echo(World):
    """Answers after 10 ms with the request itself."""

    def send(self, actor: Actor, request: Any) -> None:
        turn = actor.turn
        self.later(10, lambda _: actor.take(turn, request))


class Client(Actor):
    def live(self) -> Script:
        self.got = [(yield HeartbeatRequest("g"))]
        yield 5
        self.got.append((yield HeartbeatRequest("h")))


def test_events_of_one_ms_happen_in_order_and_time_ends_at_the_limit() -> None:
    world, seen = World(Random(0), ms=100), []
    VirtualClock(world).call_at(130, lambda: seen.append((world.ms, "clock")))
    world.later(30, seen.append, "later")
    world.later(10, seen.append, "first")
    VirtualClock(world).call_at(120, lambda: seen.append("cancelled")).cancel()
    assert not world.run(lambda: False, 40)
    assert seen == ["first", (130, "clock"), "later"]
    assert world.ms == 140


def test_late_answers_are_ignored_and_paused_processes_get_theirs_later() -> None:
    world = Echo(Random(0), ms=0)
    client = Client(world, "c")
    client.start()
    client.again(client.live())
    client.paused_until_ms = 20
    world.run(lambda: client.script is None, 100)
    assert [one.group_id for one in client.got] == ["g", "h"]
    assert world.ms == 35
