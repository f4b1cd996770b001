"""The world of `tests.simulation.world`, with groups of both protocols: topics that grow, requests that come twice,
work outside the core, and servers that end right after a write.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any, Final

from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.runtime.group_coordinator.background_work import helpers
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.state_machine.output import Output
from muster.coordinator.system.jobs import OffloadedWork
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.simulation import world
from tests.simulation.consumers.ownership import Ownership
from tests.simulation.consumers.scenario import Scenario
from tests.simulation.world import Call

FIRST: Final = {"t": 6, "u": 3, "v": 1}
MAX_PARTITIONS: Final = 12


class World(world.World):
    """The world of this module. `names` and `ids` of the topics, and how many partitions each has (`counts`)."""

    def __init__(self, scenario: Scenario, rng: Random, watch: Ownership) -> None:
        self.ids = {name: name.encode() * 16 for name in FIRST}
        self.names = {topic_id: name for name, topic_id in self.ids.items()}
        self.counts = dict(FIRST)
        self._version = 1
        self._term = 0
        super().__init__(scenario, rng, watch)
        watch.world = self

    @property
    def topics(self) -> TopicsImage:
        """The image that the core gets."""
        rows = {name: TopicImage(name, self.ids[name], count) for name, count in self.counts.items()}
        return TopicsImage(rows, self._version)

    def new_core(self) -> GroupCore:
        self._term += 1
        term = self._term

        def tell(result: Any) -> None:
            if self.core is not None and term == self._term:
                self.events += 1
                self.watch.begins(None, self.ms)
                self._settle(self.core.handle(result, self.now()))
                self._arm()

        return GroupCore(self.settings, self.topics, helpers=helpers(_Later(self), tell))

    def replayed(self) -> GroupCore:
        """Another core of these records; the present core continues."""
        term = self._term
        core = super().replayed()
        if self.core is not None:
            self._term = term
        return core

    def command_of(self, call: Call) -> Command:
        request = call.request
        if type(request) is ConsumerGroupHeartbeatRequest:
            client: Any = call.actor.client
            return ConsumerHeartbeatCommand(request, call, client, drawn_id=f"drawn-{call.number}")
        return super().command_of(call)

    def _arrive(self, call: Call) -> None:
        super()._arrive(call)
        if not self.calm and self.core is not None and self.random() < self.scenario.repeat:
            self.note("repeated", call, None)
            self.calls += 1
            nobody = Call(call.actor, call.request, self.calls, self.ms)
            nobody.turn = -1
            super()._arrive(nobody)
            self.repeated(call, nobody)

    def repeated(self, call: Call, again: Call) -> None:
        """A request came twice. The client sees the answer of `call`, and nobody sees that of `again`."""

    def _settle(self, output: Output) -> None:
        ours = [one for one in output.replies if not isinstance(one[0], Call)]
        output.replies = [one for one in output.replies if isinstance(one[0], Call)]
        super()._settle(output)
        for respond, wanted in ours:
            respond(wanted)
        if output.records and not self.calm and self.random() < self.scenario.crash_at_write:
            self.later(int(self.random() * (self.scenario.sync_ms + 1)), self._end_of, self._term)

    def _end_of(self, term: int) -> None:
        if self.core is not None and term == self._term and not self.calm:
            self.crash(int(self.random() * 3_000))

    def grow(self) -> None:
        """Give a topic one partition more."""
        name = sorted(self.counts)[int(self.random() * len(self.counts))]
        if self.counts[name] < MAX_PARTITIONS:
            self.counts[name] += 1
            self._version += 1
            self.note("grown", None, name)
            if self.core is not None:
                self.watch.begins(None, self.ms)
                self._settle(self.core.handle(TopicsChanged(self.topics), self.now()))
                self._arm()


class _Later:
    """Replaces `Slices`: work outside the core takes time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def run(self, job: Generator[Any, Any, Any], done: Any, owner: object) -> None:
        """Do the job, and call `done` some time later."""
        step: Any = None
        try:
            while True:
                step = job.send(step.work() if isinstance(step, OffloadedWork) else None)
        except StopIteration as end:
            self._world.later(int(self._world.random() * self._world.scenario.elsewhere_ms), done, end.value)
