"""A wire gives a server exactly what a socket would give in one iteration of the event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from muster.virtual.wires import MAX_READ, Wire


class Now:
    """A world and its process, in which everything happens at once, in iterations that the test asks for."""

    us = 0

    def __init__(self) -> None:
        self.world = self
        self.wires: list[Wire] = []
        self.listeners = {9092: self}
        self.turns: deque[Callable[[], object]] = deque()
        self.chunks: list[int] = []

    def random(self) -> float:
        return 0.0

    def at_us(self, _: int, what: Callable[..., object], *arguments: Any) -> None:
        what(*arguments)

    def does(self, what: Callable[..., object], *arguments: Any) -> None:
        self.turns.append(lambda: what(*arguments))

    def accept(self, wire: Wire) -> None:
        wire.opened(self)

    def connection_made(self, _: Wire) -> None:
        """Accept every connection."""

    def data_received(self, data: bytes) -> None:
        self.chunks.append(len(data))

    def turn(self) -> list[int]:
        """The chunks that come in one iteration."""
        self.chunks = []
        for _ in range(len(self.turns)):
            self.turns.popleft()()
        return self.chunks


def test_a_large_piece_is_read_in_several_iterations() -> None:
    now = Now()
    wire: Any = Wire(now, None, 0, 9092)
    now.turn()
    wire.send(b"x" * (2 * MAX_READ + 5))
    assert [now.turn() for _ in range(4)] == [[MAX_READ], [MAX_READ], [5], []]
    wire.send(b"x" * 7)
    assert now.turn() == [7]
