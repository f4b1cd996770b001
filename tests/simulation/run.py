"""One seed is one history: chaos, then calm, and every checker looking on. A failure says all that is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from muster.protocol.message import Message
from tests.simulation.at_rest import check_parked, check_replay, settle
from tests.simulation.checkers import checkers
from tests.simulation.faults import Chaos
from tests.simulation.scenario import draw
from tests.simulation.view import NEVER
from tests.simulation.watch import Violation, Watch
from tests.simulation.world import World

EVENTS: Final = 1_000
"""How long a history is at least."""
SHOWN: Final = 40
"""How many of the last events of its group a failure shows."""
_CHAOTIC: Final = 0.7
"""How much of a history is chaos; the rest is for coming to rest."""
_LOOK: Final = 150
"""After how many events it is looked whether somebody waits too long."""


class Failure(AssertionError):
    """A seed whose history broke a rule: `checker` says which ("crash" for an exception of the core)."""

    def __init__(self, seed: int, events: int, checker: str, text: str) -> None:
        super().__init__(seed, events, checker, text)
        self.seed = seed
        self.checker = checker
        self.text = text

    def __str__(self) -> str:
        return self.text


def simulate(seed: int, events: int = EVENTS) -> World:
    """Play one history of at least so many events. Raises Failure."""
    rng = Random(seed)
    scenario = draw(rng)
    world = World(scenario, rng, Watch(checkers()))
    chaos = Chaos(world, scenario, world.end)
    try:
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
    except Exception as error:  # whatever breaks, the seed must be told
        checker = error.checker if isinstance(error, Violation) else "crash"
        raise Failure(seed, events, checker, story(world, seed, events, error)) from error
    return world


def story(world: World, seed: int, events: int, error: Exception) -> str:
    """What failed, how to see it again, and the last events of the group."""
    group_id = error.group_id if isinstance(error, Violation) else ""
    rows = []
    for number, ms, what, call, detail in world.trace:
        who = "" if call is None else f"{call.actor.name} #{call.number} "
        text = brief(call.request if call is not None and what != "<-" else detail)
        about = str(detail) if call is None else brief(call.request)
        if not group_id or f"'{group_id}'" in about or (call is None and "'" not in about):
            rows.append(f"{number:>6} {ms:>8} ms {what} {who}{text}")
    head = f"seed {seed}, event {world.events}, {world.ms} ms: {type(error).__name__}: {error}"
    again = f"again: make simulate ARGS='--seeds 1 --start {seed} --events {events}'"
    return "\n".join([head, again, f"the last events of group {group_id!r}:", *rows[-SHOWN:]])


def brief(message: object) -> str:
    """A message without the fields that say nothing."""
    if not isinstance(message, Message):
        return "" if message is None else str(message)
    name = type(message).__name__
    if not name.endswith(("Request", "Response")):
        name = ""  # a part of one
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


def first_failure(seeds: Iterable[int], checker: str, events: int = EVENTS) -> Failure | None:
    """Play these histories until that checker finds something; None when it does not."""
    for seed in seeds:
        try:
            simulate(seed, events)
        except Failure as failure:
            if failure.checker == checker:
                return failure
    return None


def play(seeds: Iterable[int], events: int = EVENTS, tell: Callable[[Failure], None] | None = None) -> tuple[int, int]:
    """Play these histories: how many events there were, and how many of the histories failed."""
    happened = failed = 0
    for seed in seeds:
        try:
            happened += simulate(seed, events).events
        except Failure as failure:
            failed += 1
            if tell is not None:
                tell(failure)
    return happened, failed
