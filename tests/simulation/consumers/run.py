"""Histories of groups of both protocols: faults, then a calm time, after which every partition must have an owner."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final
from unittest import mock

from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.consumer import target
from muster.coordinator.groups.consumer.group import ConsumerGroup
from tests.simulation.consumers.clients import Classic, Native
from tests.simulation.consumers.ownership import Ownership
from tests.simulation.consumers.scenario import SETTLED_WITHIN_MS, draw
from tests.simulation.consumers.world import World
from tests.simulation.playing import Histories
from tests.simulation.run import brief
from tests.stories.virtual import persisted

SHOWN: Final = 60
INSTANCES: Final = 3
LOOK: Final = 25
"""After this number of events the present core is compared with a core of its records."""


class History:
    """The clients of one world, and their faults."""

    def __init__(self, seed: int, events: int) -> None:
        self.events = events
        rng = Random(seed)
        self.scenario = draw(rng)
        self.watch = Ownership()
        self.world = World(self.scenario, rng, self.watch)
        self._named = 0

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
            seen = world.events
            world.run(lambda seen=seen: world.events > seen, 20_000)
            self.watch.look()
            if not world.events % LOOK:
                self.check_replay()
        self._settle()
        self.check_replay()

    # ---- faults

    def _spawn(self, group: int) -> None:
        world = self.world
        if not world.calm:
            instance = f"i{int(world.random() * INSTANCES)}" if world.random() < 0.35 else None
            self._begin(group, instance, is_native=world.random() < self.scenario.natives)

    def _begin(self, group: int, instance: str | None, *, is_native: bool) -> None:
        self._named += 1
        kind = Native if is_native else Classic
        one = kind(self.world, f"{kind.__name__[0].lower()}{self._named}", f"g{group}", instance)
        self.world.note(f"{one.name} starts", None, f"in '{one.group_id}' as {instance}: {one.names} {one.pattern}")
        self.watch.clients.append(one)
        one.start()

    def _again(self) -> None:
        self.world.later(1 + int(self.world.random() * 2 * self.scenario.tick_ms), self._tick)

    def _living(self) -> list[Any]:
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

    def _end(self, one: Any) -> None:
        """End a process, in order or not; some return with the other protocol."""
        world = self.world
        if world.random() < 0.6:
            world.note(f"{one.name} leaves", None, None)
            one.again(one.leave() if isinstance(one, Native) else one.go())
        else:
            world.note(f"{one.name} is killed", None, None)
            one.kill()
        if one.instance is not None or world.random() < 0.5:
            group, other = int(one.group_id[1:]), isinstance(one, Classic) == (world.random() < 0.7)
            world.later(int(world.random() * 3_000), lambda _: self._back(group, one.instance, is_native=other))

    def _back(self, group: int, instance: str | None, *, is_native: bool) -> None:
        if not self.world.calm:
            self._begin(group, instance, is_native=is_native and self.scenario.natives > 0)

    # ---- the end

    def _settle(self) -> None:
        """After the faults, every subscribed partition must be owned by one member."""
        world = self.world
        world.calm = True
        last: dict[tuple[str, str], Any] = {}
        for one in self._living():
            one.paused_until_ms = 0
            one.careless = False
            one.latency_ms = min(one.latency_ms, 3)
            if one.instance is not None:
                last[one.group_id, one.instance] = one
        for one in self._living():
            if one.instance is not None and last[one.group_id, one.instance] is not one:
                one.kill()
        for number in range(self.scenario.groups):
            self._begin(number, None, is_native=True)  # a refused consumer is gone: at least one must be there
            self._begin(number, None, is_native=False)
        missing = self._missing()
        end_ms = world.ms + SETTLED_WITHIN_MS
        while missing and world.ms < end_ms:
            seen = world.events
            world.run(lambda seen=seen: world.events > seen + 20, 20_000)
            self.watch.look()
            missing = self._missing()
        if missing:
            self.watch.fail(missing[0][0], f"not owned in the end: {missing}")

    def _missing(self) -> list[tuple[str, str, int]]:
        """Subscribed partitions without an owner, or members that are not in the group's generation."""
        missing = []
        for number in range(self.scenario.groups):
            group_id = f"g{number}"
            members = [one for one in self._living() if one.group_id == group_id]
            group = None if self.world.core is None else self.world.core.state.groups.get(group_id)
            if isinstance(group, ConsumerGroup) and group.classic_count == len(group.members):
                continue  # as on Kafka, only a member of the new protocol, or a joining member, causes new targets
            wanted = {name for one in members for name in self._names(one)} & self.world.counts.keys()
            owned = {partition for one in members for partition in one.owned}
            every = {(name, partition) for name in wanted for partition in range(self.world.counts[name])}
            missing += [(group_id, *one) for one in sorted(every ^ owned)]
            if (
                isinstance(group, ConsumerGroup | ClassicGroup)
                and group.state not in ("Stable", "Empty")
                and not missing
            ):
                missing.append((group_id, group.state, -1))
        return missing

    def _names(self, one: Any) -> tuple[str, ...]:
        return {None: one.names, "u": ("u",), "t|u": ("t", "u"), "[t-v]": ("t", "u", "v")}[one.pattern]

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
            elif what in ("crash", "resign", "grown", "repeated", "lost"):
                counts[what] += 1
        return counts + self.watch.migrations


CONSUMERS = Histories(History, "--consumers ")
"""Histories of groups of both protocols."""
