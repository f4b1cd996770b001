"""A seed gives the same history as in earlier versions: the random numbers of the world, the wires and the threads, in
order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random
from typing import Any

from muster.virtual.machine import PORT, ProcessClock, Threads, VirtualLoop, VirtualProcess
from muster.virtual.wires import Wire
from muster.virtual.world import World

HISTORY = "8358d8d18421282d"
"""The digest of the history of seed 7. It did not change when a play got the same machine as a simulation."""


class Echo:
    """The server's end of a connection: it sends back what a thread reads."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def connection_made(self, wire: Wire) -> None:
        self.wire = wire

    def data_received(self, data: bytes) -> None:
        self.process.note("read", data)
        self.process.threads.submit(lambda: self.wire.write(data * 2))

    def connection_lost(self, error: Exception | None) -> None:
        self.process.note("lost", repr(error))


class Process(VirtualProcess):
    max_iterations = 100
    retry_ms = 5

    def __init__(self, world: World) -> None:
        super().__init__(VirtualLoop(world))
        self.reported = hashlib.sha256()
        self.threads = Threads(self)
        self.listeners[PORT] = self

    def accept(self, wire: Wire) -> None:
        wire.opened(Echo(self))

    def note(self, *what: Any) -> None:
        self.reported.update(f"{self.world.ms} {what}\n".encode())

    def settled(self) -> None:
        self.note("settled")

    def job_delay_ms(self) -> int:
        return 1 + self.world.rng.randrange(10)


class Client:
    def __init__(self, process: Process, number: int) -> None:
        self.process, self.world, self.number = process, process.world, number
        self.connect()

    def connect(self, _: None = None) -> None:
        self.wire = Wire(self.process, self, 50)
        self.world.later(self.world.rng.randrange(400), self.cut, self.wire)
        self.send()

    def send(self) -> None:
        self.wire.send(b"%d " % self.number * self.world.rng.randrange(1, 30))

    def cut(self, wire: Wire) -> None:
        wire.cut()
        if wire is self.wire:
            self.world.later(self.world.rng.randrange(20), self.connect)

    def received(self, wire: Wire, data: bytes) -> None:
        self.process.note("answer", self.number, data)
        if len(data) < 500:
            self.send()

    def hung_up(self, wire: Wire) -> None:
        self.process.note("hung up", self.number)


def history(seed: int) -> str:
    world = World(Random(seed))
    process = Process(world)
    clock = ProcessClock(process)

    def every(ms: int) -> Callable[[], object]:
        def ring() -> None:
            process.note("timer", ms, clock.now())
            clock.call_at(clock.mono_ms() + ms, ring)

        return ring

    every(70)()
    for number in range(4):
        Client(process, number)
    for _ in range(5):
        world.run(lambda: False, 300)
        process.suspend(world.rng.randrange(100))
    process.note("end", world.random())
    process.loop.close()
    return process.reported.hexdigest()[:16]


def test_a_seed_gives_the_history_of_earlier_versions() -> None:
    assert history(7) == HISTORY
    assert history(8) != HISTORY
