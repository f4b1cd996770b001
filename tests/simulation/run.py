"""Histories of groups of the classic protocol: faults, then a calm time, with every checker."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

from muster.protocol.message import Message
from tests.simulation.at_rest import check_parked, check_replay, settle
from tests.simulation.checkers import checkers
from tests.simulation.faults import Chaos
from tests.simulation.playing import Histories
from tests.simulation.scenario import draw
from tests.simulation.view import NEVER
from tests.simulation.watch import Violation, Watch
from tests.simulation.world import World

SHOWN: Final = 40
"""A failure shows this many of the last events of its group."""
_CHAOTIC: Final = 0.7
"""The share of a history with faults; the rest is for settling."""
_LOOK: Final = 150
"""After this number of events a check looks for requests that wait too long."""


class History:
    """Some groups of the classic protocol."""

    def __init__(self, seed: int, events: int) -> None:
        self.events = events
        rng = Random(seed)
        self.scenario = draw(rng)
        self.world = World(self.scenario, rng, Watch(checkers()))

    def play(self) -> None:
        """Play the whole history. Raises the error of a broken rule."""
        world, events = self.world, self.events
        chaos = Chaos(world, self.scenario, world.end)
        chaos.begin()
        chaotic = int(events * _CHAOTIC)
        while world.events < chaotic:
            world.run_events(min(world.events + _LOOK, chaotic), NEVER)
            check_parked(world)
        check_replay(world)
        chaos.calm()
        settle(world, chaos.living, events)
        while world.events < events:
            chaos.go_on()
            world.run_events(events, 60_000)
            settle(world, chaos.living, events)
        check_parked(world)
        check_replay(world)
        world.resign(1)

    def now(self) -> str:
        """The present time of the history."""
        return f"event {self.world.events}, {self.world.ms} ms"

    def described(self, error: Exception | None = None) -> list[str]:
        """The last events of the group that the error names."""
        group_id = error.group_id if isinstance(error, Violation) else ""
        rows = []
        for number, ms, what, call, detail in self.world.trace:
            who = "" if call is None else f"{call.actor.name} #{call.number} "
            text = brief(call.request if call is not None and what != "<-" else detail)
            about = str(detail) if call is None else brief(call.request)
            if not group_id or f"'{group_id}'" in about or (call is None and "'" not in about):
                rows.append(f"{number:>6} {ms:>8} ms {what} {who}{text}")
        return [f"the last events of group {group_id!r}:", *rows[-SHOWN:]]

    def counted(self) -> Counter[str]:
        """The number of events."""
        return Counter(events=self.world.events)


def brief(message: object) -> str:
    """A message without its empty fields."""
    if not isinstance(message, Message):
        return "" if message is None else str(message)
    name = type(message).__name__
    if not name.endswith(("Request", "Response")):
        name = ""  # a part of a message
    fields = []
    for field in message.__slots__:
        value = getattr(message, field)
        if value in (None, "", 0, -1, False, (), []) or value == bytes(16):
            continue
        if isinstance(value, list | tuple):
            text = "[" + ", ".join(map(brief, value)) + "]"
        else:
            text = repr(value)
        fields.append(f"{field}={text}")
    return f"{name}({', '.join(fields)})"


GROUPS = Histories(History)
"""Histories of groups of the classic protocol."""
