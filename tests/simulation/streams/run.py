"""Histories of streams groups: faults, then a calm time, after which every task must have an owner. At the end all
members leave and the groups are deleted.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final
from unittest import mock

from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.streams import target
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.groups.streams.heartbeat import HeartbeatCommand
from muster.coordinator.groups.streams.internal_topics import InternalTopic
from muster.coordinator.state_machine.interface import Command
from muster.protocol.message import Message
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from muster.simulation.actor import Actor
from tests.simulation.consumers import world
from tests.simulation.playing import Histories
from tests.simulation.run import brief
from tests.simulation.streams.clients import Member, Task
from tests.simulation.streams.ownership import Ownership
from tests.simulation.streams.scenario import SESSION_MS, SETTLED_WITHIN_MS, draw
from tests.simulation.world import Call
from tests.stories.virtual import persisted

SHOWN: Final = 60
INSTANCES: Final = 3
LOOK: Final = 25
"""After this number of events the present core is compared with a core of its records."""
CREATED_WITHIN_MS: Final = 500
SOURCES: Final = ("t", "u", "v")


class World(world.World):
    """The world of `tests.simulation.consumers`, in which heartbeats create internal topics a little later."""

    def __init__(self, scenario: Any, rng: Random, watch: Any) -> None:
        self._again: dict[int, Call] = {}
        """By the number of a call, the second arrival of its request, if its answer has tasks."""
        super().__init__(scenario, rng, watch)

    def repeated(self, call: Call, again: Call) -> None:
        """Let the client see both answers: as on Kafka, no later answer has the tasks of the second one."""
        reply: Any = again.reply
        if isinstance(reply, StreamsGroupHeartbeatResponse) and reply.active_tasks is not None:
            self._again[call.number] = again

    def _deliver(self, call: Call) -> None:
        again = self._again.pop(call.number, None)
        if again is None:
            super()._deliver(call)
            return
        again.turn = call.turn
        self.later(max(again.release_ms - self.ms, 0), super()._deliver, again)

    def command_of(self, call: Call) -> Command:
        request = call.request
        if type(request) is not StreamsGroupHeartbeatRequest:
            return super().command_of(call)
        command = HeartbeatCommand(request, call, call.actor.client)
        self.later(int(self.random() * CREATED_WITHIN_MS), self._create, (command.missing, self._sources()))
        return command

    def _sources(self) -> list[int]:
        return [self.counts[name] for name in SOURCES]

    def _create(self, wanted: tuple[dict[str, InternalTopic], list[int]]) -> None:
        missing, sources = wanted
        if sources != self._sources():
            return  # the server creates topics at once: it never creates them for earlier counts of partitions
        new = {name: topic.partitions for name, topic in missing.items() if name not in self.counts}
        if new:
            self.counts.update(new)
            for name in new:
                self.ids[name] = name.encode().ljust(16, b".")[:16]
            self._changed(f"created {' '.join(new)}")

    def grow(self) -> None:
        """Give a source topic one partition more, or delete an internal topic."""
        internal = self.internal()
        if internal and self.random() < 0.5:
            self.delete([internal[int(self.random() * len(internal))]])
        elif self.random() < 0.3:
            name = SOURCES[int(self.random() * len(SOURCES))]
            if self.counts[name] < world.MAX_PARTITIONS:
                self.counts[name] += 1
                self._changed(f"grown {name}")

    def internal(self) -> list[str]:
        """The internal topics that exist."""
        return sorted(self.counts.keys() - set(SOURCES))

    def delete(self, names: list[str]) -> None:
        """Delete these topics. Those of a topology that has grown can then be made with more partitions."""
        for name in names:
            del self.counts[name]
        self._changed(f"deleted {' '.join(names)}")

    def _changed(self, what: str) -> None:
        self._version += 1
        self.note(what.split()[0], None, what)
        if self.core is not None:
            self.watch.begins(None, self.ms)
            self._settle(self.core.handle(TopicsChanged(self.topics), self.now()))
            self._arm()

    def settled(self, request: Message) -> Message | None:
        """The answer to an administrator, whose records are kept."""
        call = Call(Actor(self, "admin"), request, 0, self.ms)
        super()._arrive(call)
        return call.reply


class History:
    """The clients of one world, and their faults."""

    def __init__(self, seed: int, events: int) -> None:
        self.events = events
        rng = Random(seed)
        self.scenario = draw(rng)
        self.watch = Ownership()
        self.world = World(self.scenario, rng, self.watch)
        self._named = 0
        self._counts: Counter[str] = Counter()

    def play(self) -> None:
        """Play the whole history. Raises the error of a broken rule."""
        with mock.patch.object(target, "AT_ONCE", self.scenario.at_once):
            self._play()

    def _play(self) -> None:
        world, scenario = self.world, self.scenario
        for number in range(scenario.consumers):
            world.later(int(world.random() * 4_000), self._spawn, number % scenario.groups)
        self._again()
        while world.events < self.events:
            self._some_events(0)
            if not world.events % LOOK:
                self.check_replay()
        self._settle()
        self.check_replay()
        self._close()

    def _some_events(self, more: int) -> None:
        seen = self.world.events + more
        self.world.run(lambda: self.world.events > seen, 20_000)
        self.watch.look()

    # ---- faults

    def _spawn(self, group: int) -> None:
        world = self.world
        if not world.calm:
            self._begin(group, f"i{int(world.random() * INSTANCES)}" if world.random() < 0.35 else None)

    def _begin(self, group: int, instance: str | None) -> None:
        self._named += 1
        one = Member(self.world, f"m{self._named}", f"g{group}", instance)
        self.world.note(f"{one.name} starts", None, f"in '{one.group_id}' as {instance}, process {one.process}")
        self.watch.clients.append(one)
        one.start()

    def _again(self) -> None:
        self.world.later(1 + int(self.world.random() * 2 * self.scenario.tick_ms), self._tick)

    def _living(self) -> list[Member]:
        self.watch.clients = [one for one in self.watch.clients if one.script is not None]
        return self.watch.clients

    def _tick(self, _: None) -> None:
        world, random, scenario = self.world, self.world.random, self.scenario
        if world.calm:
            return
        living, what = self._living(), random()
        if what < scenario.crashes:
            world.end()
        elif what < scenario.crashes + 0.05:
            world.grow()
        elif len(living) < scenario.consumers or what < scenario.crashes + 0.15 or not living:
            self._spawn(int(random() * scenario.groups))
        else:
            one = living[int(random() * len(living))]
            if random() < 0.3:
                world.note(f"{one.name} stands still", None, None)
                one.paused_until_ms = world.ms + int(random() ** 2 * 20_000)
            else:
                self._end(one)
        self._again()

    def _end(self, one: Member) -> None:
        """End a process, in order or not. Some return."""
        world = self.world
        if world.random() < 0.6:
            world.note(f"{one.name} leaves", None, None)
            one.again(one.leave())
        else:
            world.note(f"{one.name} is killed", None, None)
            one.kill()
        if one.instance is not None or world.random() < 0.5:
            world.later(int(world.random() * 3_000), lambda _: self._back(one))

    def _back(self, one: Member) -> None:
        if not self.world.calm:
            self._begin(int(one.group_id[1:]), one.instance)

    # ---- the end

    def _settle(self) -> None:
        """After the faults, every task must be owned by one member."""
        world = self.world
        world.calm = True
        last: dict[tuple[str, str], Member] = {}
        for one in self._living():
            one.paused_until_ms = 0
            one.careless = False
            one.latency_ms = min(one.latency_ms, 3)
            if one.instance is not None:
                last[one.group_id, one.instance] = one
        for one in self._living():
            if one.instance is not None and last[one.group_id, one.instance] is not one:
                one.kill()
        world.delete(world.internal())
        for number in range(self.scenario.groups):
            self._begin(number, None)  # a refused member is gone: at least one must be there
        missing, end_ms = self._missing(), world.ms + SETTLED_WITHIN_MS
        while missing and world.ms < end_ms:
            self._some_events(20)
            missing = self._missing()
        if missing:
            self.watch.fail(missing[0][0], f"not owned in the end: {missing}")

    def _missing(self) -> list[tuple[str, str, int]]:
        """Tasks without an owner, and groups that have not settled."""
        missing: list[tuple[str, str, int]] = []
        for number in range(self.scenario.groups):
            group_id = f"g{number}"
            owned: list[Task] = [task for one in self._living() if one.group_id == group_id for task in one.owned]
            group = None if self.world.core is None else self.world.core.state.groups.get(group_id)
            if not isinstance(group, StreamsGroup) or group.configured is None or group.state != "Stable":
                missing.append((group_id, getattr(group, "state", "none"), -1))
                continue
            subtopologies = group.configured.subtopologies
            every = {(name, number) for name, one in subtopologies.items() for number in range(one.tasks)}
            missing += [(group_id, *one) for one in sorted(every ^ set(owned))]
            if len(owned) > len(set(owned)):
                missing.append((group_id, "twice", -1))
        return missing

    def _close(self) -> None:
        """Let all members leave, and delete the groups: nothing may be left."""
        world = self.world
        for one in self._living():
            one.again(one.leave())
        end_ms = world.ms + 10 * SESSION_MS + 60_000
        while world.ms < end_ms and (world.core is None or any(self._members(n) for n in range(self.scenario.groups))):
            self._some_events(0)
        names = [f"g{number}" for number in range(self.scenario.groups)]
        answers: Any = world.settled(DeleteGroupsRequest(names))
        for row in answers.results:
            if row.error_code:
                self.watch.fail(row.group_id, f"cannot be deleted: {row.error_code}")
        core = world.core
        assert core is not None
        for name in core.state.groups:
            self.watch.fail(name, "is still there")
        if len(core.state.deadlines) > 1:  # that of the search for unused offsets
            self.watch.fail(names[0], "has left a deadline")
        if self.world.replayed().state.groups:
            self.watch.fail(names[0], "is in the log after its end")

    def _members(self, number: int) -> object:
        core = self.world.core
        group: Any = None if core is None else core.state.groups.get(f"g{number}")
        return group is not None and group.members

    def check_replay(self) -> None:
        """A core that is made of the records must equal the present one, except for state without records."""
        core = self.world.core
        if core is not None:
            other = self.world.replayed()
            other.loaded(self.world.now())
            replayed, live = persisted(other, core), persisted(core, core)
            for group_id in sorted(replayed.keys() | live.keys()):
                if replayed.get(group_id) != live.get(group_id):
                    what = f"is {live.get(group_id)}, replayed it is {replayed.get(group_id)}"
                    self.watch.fail(group_id, what)

    def now(self) -> str:
        """The present time of the history."""
        return f"event {self.world.events}, {self.world.ms} ms"

    def described(self, error: Exception | None = None, last: int = SHOWN) -> list[str]:  # of all groups
        """The parameters of the history, and its last events."""
        rows = []
        for number, ms, what, call, detail in list(self.world.trace)[-last:]:
            who = "" if call is None else f"{call.actor.name} #{call.number} "
            text = brief(call.request if call is not None and what != "<-" else detail)
            rows.append(f"{number:>6} {ms:>8} ms {what} {who}{text}")
        return [str(self.scenario), *rows]

    def counted(self) -> Counter[str]:
        """Counts of answers, faults and migrations."""
        counts: Counter[str] = Counter(events=self.world.events, records=len(self.world.records))
        for _, _, what, call, detail in self.world.trace:
            if what == "<-":
                counts[f"{type(call.request).__name__} {getattr(detail, 'error_code', 0)}"] += 1
            elif what in ("crash", "resign", "grown", "created", "deleted", "repeated", "lost"):
                counts[what] += 1
        return counts + self.watch.seen


STREAMS: Final = Histories(History, "--streams ")
"""Histories of streams groups."""
