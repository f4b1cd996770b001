"""Plays histories in virtual time, with cores in place of servers: for tests, and to try a history without waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.conform.player.story import Story
from tests.stories.random.lockstep import Lockstep, Outcome
from tests.stories.random.side import Side
from tests.stories.random.ways import OwnWays
from tests.stories.random.worlds import CoreWorld, VirtualClock

Servers = Mapping[str, tuple[Callable[[], OwnWays], Callable[[], OwnWays]]]
"""Name -> (how that server behaves, how it is expected to behave)."""


async def play(story: Story, servers: Servers) -> tuple[Outcome, list[CoreWorld]]:
    """Play one history on cores; how it went, and the cores."""
    clock = VirtualClock()
    worlds = [CoreWorld(name, story, ways(), clock) for name, (ways, _) in servers.items()]
    expected = [ways() for _, ways in servers.values()]
    sides = [Side(world, ways, story, clock) for world, ways in zip(worlds, expected, strict=True)]
    return await Lockstep(sides, clock).play(story), worlds
