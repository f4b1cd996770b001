"""A server and all that can be done to it, put together: for `muster.testing` and the control over HTTP."""

from __future__ import annotations

from muster.coordinator.api.intercept import NO_INTERCEPT, Intercept
from muster.coordinator.config import Config
from muster.coordinator.machine import Machine
from muster.coordinator.rehearsal.faults.engine import Faults
from muster.coordinator.rehearsal.groups import Groups
from muster.coordinator.rehearsal.joins import HeldJoins, chained
from muster.coordinator.rehearsal.nodes import Nodes
from muster.coordinator.rehearsal.seeded import RehearsalMachine
from muster.coordinator.rehearsal.topics import Topics
from muster.coordinator.rehearsal.virtual_time import VirtualTime
from muster.coordinator.server import Server


class Rehearsal:
    """One server and its verbs. It is started and stopped as any (`server`); all is called from its event loop."""

    def __init__(self, config: Config, *, machine: Machine | None = None, intercept: Intercept = NO_INTERCEPT) -> None:
        """`intercept`: meets what is not held."""
        self.joins = HeldJoins()
        own = self.joins.intercept
        self.server = Server(
            config,
            machine=RehearsalMachine() if machine is None else machine,
            intercept=own if intercept is NO_INTERCEPT else chained(own, intercept),
        )
        self.groups = Groups(self.server, self.joins)
        self.topics = Topics(self.server)
        self.nodes = Nodes(self.server)
        self.faults = Faults(self.server)
        self.time = VirtualTime(self.server)

    async def tidy(self) -> None:
        """Nothing is held or paused any more, no rule of faults is in force, and time goes on, as after a test."""
        self.joins.release_all()
        self.faults.clear()
        if self.time.is_movable:
            self.time.thaw()
        await self.nodes.resume_all()
