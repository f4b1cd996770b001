"""Faults: processes that die, hang, return, or run twice; foreign clients with others' ids; the end of the server.

The network loses messages (see world). All faults stop when the world is calm.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import TYPE_CHECKING, Any, Final

from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.join_group import JoinGroupRequestProtocol
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from muster.simulation.actor import Script
from muster.simulation.consumer import Consumer, leave_of, rows_of
from muster.virtual.world import World
from tests.simulation.clients import UnrulyConsumer, offered
from tests.simulation.scenario import PARTITIONS, REBALANCES_MS, SESSIONS_MS, TOPIC

if TYPE_CHECKING:
    from muster.protocol.message import Message

INSTANCES: Final = 5
"""A group's static members share this number of instance ids, so that some have the same."""


class Chaos:
    """Causes faults at random times."""

    def __init__(self, world: World, scenario: Any, end_server: Callable[[], object] | None = None) -> None:
        """`scenario` has `consumers`, `groups`, `probers`, `tick_ms` and `crashes`. `crashes` is how often `end_server`
        is called, which lets the server die or resign.
        """
        self.world = world
        self.scenario = scenario
        self._end_server = end_server
        self.consumers: list[UnrulyConsumer] = []
        self.probers: list[Prober] = []
        self._named = 0

    def begin(self) -> None:
        """Start all clients and the faults."""
        scenario, world = self.scenario, self.world
        for number in range(scenario.consumers):
            world.later(int(world.random() * 4_000), self._spawn, number % scenario.groups)
        for _ in range(scenario.probers):
            prober = Prober(world, self)
            self.probers.append(prober)
            prober.start()
        self._again()

    def calm(self) -> None:
        """End all faults: foreign clients stop, hanging clients continue, and one process of each instance is left."""
        world = self.world
        world.calm = True
        for prober in self.probers:
            prober.kill()
        instances: dict[tuple[str, str], UnrulyConsumer] = {}
        for one in self.living():
            one.paused_until_ms = 0
            one.careless = False
            one.latency_ms = min(one.latency_ms, 3)
            if one.instance is not None:
                instances[one.group_id, one.instance] = one
        members: dict[str, UnrulyConsumer] = {}
        for one in self.living():
            if one.instance is not None and instances[one.group_id, one.instance] is not one:
                one.kill()
            elif one.member_id and members.setdefault(one.member_id, one) is not one:
                one.kill()  # a zombie: another process has the same id

    def living(self) -> list[UnrulyConsumer]:
        """The running consumers; ended ones are forgotten."""
        self.consumers = [one for one in self.consumers if one.script is not None]
        return self.consumers

    def go_on(self) -> None:
        """If no consumer lives any more, start another one, so that the history continues."""
        if not self.living():
            self._begin(0)

    def _spawn(self, group: int) -> None:
        if not self.world.calm:
            self._begin(group)

    def _begin(self, group: int) -> None:
        world, random = self.world, self.world.random
        world.events += 1
        self._add(f"g{group}", f"i{int(random() * INSTANCES)}" if random() < 0.35 else None).start()

    def _add(self, group_id: str, instance: str | None) -> UnrulyConsumer:
        self._named += 1
        consumer = UnrulyConsumer(self.world, f"c{self._named}", group_id, instance)
        self.consumers.append(consumer)
        return consumer

    def _again(self) -> None:
        world = self.world
        world.later(1 + int(-log(1 - world.random()) * self.scenario.tick_ms), self._tick)

    def _tick(self, _: None) -> None:
        world, random = self.world, self.world.random
        if world.calm:
            return
        world.events += 1
        if self._end_server is not None and random() < self.scenario.crashes:
            self._end_server()
        else:
            living = self.living()
            if len(living) < self.scenario.consumers:
                self._spawn(int(random() * self.scenario.groups))
            elif living:
                self._trouble(living[int(random() * len(living))])
        self._again()

    def _note(self, what: str, one: UnrulyConsumer) -> None:
        self.world.note(what, None, f"{one.name} of {one.group_id!r}")

    def _trouble(self, one: UnrulyConsumer) -> None:
        world, random = self.world, self.world.random
        what = random()
        if what < 0.35:
            self._note("killed", one)
            one.kill()
        elif what < 0.6:
            self._note("paused", one)
            one.paused_until_ms = world.ms + int(random() * 2.5 * one.session_ms)
        elif what < 0.75:
            self._note("connected anew", one)
            one.again(one.live())
        elif what < 0.85 and one.instance is not None:
            self._note("second process", one)
            self._add(one.group_id, one.instance).start()
        elif one.assigned is not None:
            self._note("zombie", one)
            zombie = self._add(one.group_id, one.instance)
            zombie.member_id, zombie.generation, zombie.assigned = one.member_id, one.generation, one.assigned
            zombie.start(zombie.zombie())


class Prober(Consumer):
    """A foreign client that sends any request, with ids of others, old and new, and without."""

    def __init__(self, world: World, chaos: Chaos) -> None:
        super().__init__(world, "prober", "", session_ms=SESSIONS_MS[0], rebalance_ms=REBALANCES_MS[0])
        self.chaos = chaos
        self.two_step = False
        self.reason = "curious"
        self.seen: list[tuple[str, str, str | None, int]] = []

    def live(self) -> Script:
        """Send a request, wait a little, send again. It does not wait for its own long waits."""
        random = self.world.random
        while True:
            yield int(random() * 2 * self.chaos.scenario.tick_ms) + 100
            self._look_around()
            self._take_identity()
            ask: Any = QUESTIONS[int(random() * len(QUESTIONS))]
            yield ask(self)

    def _look_around(self) -> None:
        living = self.chaos.living()
        if living:
            new = [one for one in living if one.member_id and one.generation < 0]  # it has an id and has not joined yet
            choice = new if new and self.world.random() < 0.5 else living
            one = choice[int(self.world.random() * len(choice))]
            self.seen.append((one.group_id, one.member_id, one.instance, one.generation))
            del self.seen[:-20]

    def _take_identity(self) -> None:
        random = self.world.random
        self.group_id = f"g{int(random() * self.chaos.scenario.groups)}"
        self.member_id, self.instance, self.generation = "", None, -1
        if self.seen and random() < 0.9:
            self.group_id, self.member_id, self.instance, self.generation = self.seen[int(random() * len(self.seen))]
            if random() < 0.2:
                self.generation -= 1
            if random() < 0.3:
                self.instance = f"i{int(random() * INSTANCES)}"
        self.names_instance = self.instance

    def offers(self) -> list[JoinGroupRequestProtocol]:
        return offered(int(self.world.random() * 5))

    def joins_as_another(self) -> Message:
        """Join with the id of another member and any timeouts."""
        random = self.world.random
        self.session_ms = SESSIONS_MS[int(random() * len(SESSIONS_MS))] if random() < 0.9 else 1
        self.rebalance_ms = REBALANCES_MS[int(random() * len(REBALANCES_MS))]
        self.protocol_type = "consumer" if random() < 0.9 else "connect"
        return self.join_request()

    def assigns_all_to_itself(self) -> Message:
        """Sync as if it were the leader."""
        return self.sync_request(None, None, {self.member_id: bytes(range(PARTITIONS))})

    def makes_another_leave(self) -> Message:
        """Let another member leave by its id, or as an administrator by its instance."""
        by_instance = self.instance is not None and self.world.random() < 0.5
        return leave_of(self.group_id, "" if by_instance else self.member_id, self.instance, "out")

    def commits(self) -> Message:
        """Commit as another member, or without a member."""
        if self.world.random() < 0.3:
            self.member_id, self.names_instance, self.generation = "", None, -1
        partition = int(self.world.random() * PARTITIONS)
        return self.commit_of(rows_of({TOPIC: {partition: int(self.world.random() * 1_000)}}, 1, "p"))

    def deletes_an_offset(self) -> Message:
        """Delete an offset of any partition."""
        rows = [OffsetDeleteRequestPartition(int(self.world.random() * PARTITIONS))]
        return OffsetDeleteRequest(self.group_id, [OffsetDeleteRequestTopic(TOPIC, rows)])

    def administers(self) -> Message:
        """Describe the group, or delete it."""
        what = self.world.random()
        if what < 0.4:
            return DeleteGroupsRequest([self.group_id, self.group_id])
        return DescribeGroupsRequest([self.group_id, "none"]) if what < 0.8 else ListGroupsRequest()


QUESTIONS: Final = (
    *(Prober.joins_as_another, Prober.joins_as_another, Prober.assigns_all_to_itself, Prober.heartbeat),
    *(Prober.makes_another_leave, Prober.commits, Prober.deletes_an_offset, Prober.administers),
)
