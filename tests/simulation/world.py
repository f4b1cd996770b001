"""The world around one core: a network that loses messages, a log that is durable a little later, and no bytes at all.

This is the fast mode of the simulator: the world plays the shard. It passes requests to the core, keeps its records,
sends answers when the log is durable, and can crash. It judges nothing: `watch` sees the inputs and outputs.

An event that counts is a request that reaches the core, an answer or a timer that reaches a client, an effective
deadline of the core, or a fault. Something that comes too late does not count.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, Final

from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Command, Record
from muster.coordinator.state_machine.output import Output
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.simulation.actor import Actor
from muster.virtual import world
from tests.simulation.scenario import PARTITIONS, TOPIC, Scenario
from tests.simulation.watch import Watch

TOPICS: Final = TopicsImage({TOPIC: TopicImage(TOPIC, b"T" * 16, PARTITIONS)}, 1)
REQUEST_TIMEOUT_MS: Final = 30_000
"""How long a client waits for an answer before it connects again."""
TRACE: Final = 4_000
"""How many of the last requests and replies are kept."""


class Call:
    """One request under way, and its token in the core."""

    __slots__ = ("actor", "number", "parked", "release_ms", "reply", "request", "sent_ms", "term", "turn")

    def __init__(self, actor: Actor, request: Message, number: int, sent_ms: int) -> None:
        self.actor = actor
        self.request = request
        self.number = number
        self.sent_ms = sent_ms
        self.turn = actor.turn
        self.reply: Message | None = None
        self.release_ms = 0
        self.term = 0
        self.parked = False


class World(world.World):
    """See the module."""

    def __init__(self, scenario: Scenario, rng: Random, watch: Watch) -> None:
        super().__init__(rng)
        self.scenario = scenario
        self.watch = watch
        self.settings: GroupSettings = scenario.settings
        self.calls = 0
        self.records: list[Record] = []
        self.trace: deque[tuple[int, int, str, Any, Any]] = deque(maxlen=TRACE)
        self.parked: dict[int, Call] = {}
        self.core: GroupCore | None = self.new_core()
        self._alarm_ms = NEVER
        """When the core gets the time, if nothing moves its deadlines."""
        self._term_ends: list[int] = []
        """For each former core, until when its answers were sent."""
        self._durable_ms = 0
        self._syncs: list[tuple[int, int]] = []
        """When each batch that is not durable yet will be, and how many records were before it."""
        self.core.loaded(self.now())

    def new_core(self) -> GroupCore:
        """A new core without any state."""
        return GroupCore(self.settings, TOPICS)

    def run_events(self, events: int, for_ms: int) -> None:
        """Let `events` events happen, at most for `for_ms`."""
        self.run(lambda: self.events >= events, for_ms)

    # ---- deadlines

    def _arm(self) -> None:
        """Let the core handle its next deadline, `late_ms` after it."""
        due_ms = None if self.core is None else self.core.next_deadline_ms()
        if due_ms is not None and due_ms + self.scenario.late_ms < self._alarm_ms:
            self._alarm_ms = due_ms + self.scenario.late_ms
            self.later(max(self._alarm_ms - self.ms, 0), self._ring, self._alarm_ms)

    def _ring(self, alarm_ms: int) -> None:
        core = self.core
        if alarm_ms != self._alarm_ms:
            return
        self._alarm_ms = NEVER
        due_ms = None if core is None else core.next_deadline_ms()
        if core is not None and due_ms is not None and due_ms + self.scenario.late_ms <= self.ms:
            output = core.advance(self.now())
            if output.replies or output.records or output.events:
                self.events += 1
                if output.replies:
                    self.note("time", None, None)
                self.watch.begins(None, self.ms)
                self._settle(output)
        self._arm()

    # ---- requests and answers

    def send(self, actor: Actor, request: Message) -> None:
        """A client sends a request, which may get lost."""
        self.calls += 1
        call = Call(actor, request, self.calls, self.ms)
        if not self.calm and self.random() < self.scenario.lose_request:
            self.note("lost", call, None)
            self.later(REQUEST_TIMEOUT_MS, self._give_up, call)
        else:
            self.later(int(self.random() * actor.latency_ms), self._arrive, call)

    def ask(self, request: Message) -> Any:
        """The core's immediate answer to an administrator: for checkers that look at groups as clients do."""
        assert self.core is not None
        call = Call(Actor(self, "checker"), request, 0, self.ms)
        return self.core.handle(Command(request, call, call.actor.client), self.now()).replies[0][1]

    def _arrive(self, call: Call) -> None:
        request, core = call.request, self.core
        self.events += 1
        if core is None:
            call.reply = refuse(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self.later(1, self._deliver, call)
            return
        self.trace.append((self.events, self.ms, "->", call, None))
        call.term = len(self._term_ends)
        self.watch.begins(call, self.ms)
        self._settle(core.handle(self.command_of(call), self.now()))
        self._arm()
        if call.reply is None:
            call.parked = True
            self.parked[call.number] = call
            self.watch.parked(call)
            timeout_ms = REQUEST_TIMEOUT_MS
            if type(request) is JoinGroupRequest:
                timeout_ms = max(timeout_ms, request.rebalance_timeout_ms + 5_000)
            self.later(timeout_ms, self._give_up, call)

    def command_of(self, call: Call) -> Command:
        """A request in the form in which the core gets it."""
        request, actor = call.request, call.actor
        if type(request) is JoinGroupRequest:
            return JoinCommand(request, call, actor.client, str(call.number), actor.two_step, actor.skip)
        return Command(request, call, actor.client)

    def _settle(self, output: Output) -> None:
        """Do what a shard does with an output: keep the records, and answer when they are durable."""
        if output.records:
            if self.scenario.sync_ms:
                if self._durable_ms <= self.ms:
                    self._syncs.clear()
                self._durable_ms = max(self._durable_ms, self.ms + int(self.random() * self.scenario.sync_ms))
                self._syncs.append((self._durable_ms, len(self.records)))
            self.records += output.records
            for record in output.records:
                self.watch.record(record)
        release_ms = max(self._durable_ms, self.ms)
        lose = 0.0 if self.calm else self.scenario.lose_reply
        call: Any  # stands for the callback that takes the response
        for call, response in output.replies:
            self.trace.append((self.events, self.ms, "<-", call, response))
            self.watch.reply(call, response, release_ms)
            call.reply, call.release_ms = response, release_ms
            if call.parked:
                del self.parked[call.number]
            if lose and self.random() < lose:
                if not call.parked:
                    self.later(REQUEST_TIMEOUT_MS, self._give_up, call)
            else:
                self.later(release_ms - self.ms + int(self.random() * call.actor.latency_ms), self._deliver, call)
        self.watch.ends()

    def _deliver(self, call: Call) -> None:
        if call.term < len(self._term_ends) and call.release_ms > self._term_ends[call.term]:
            call.actor.take(call.turn, None)  # the change was decided, but not durable when the server crashed
        else:
            call.actor.take(call.turn, call.reply)

    def _give_up(self, call: Call) -> None:
        call.actor.take(call.turn, None)

    def note(self, what: str, call: Call | None, detail: object) -> None:
        """Add to the trace what is neither a request nor a reply."""
        self.trace.append((self.events, self.ms, what, call, detail))

    # ---- the end of a core, and the next one

    def end(self) -> None:
        """Let the server die or resign, if it runs."""
        if self.core is not None:
            (self.crash if self.random() < 0.6 else self.resign)(int(self.random() * 3_000))

    def crash(self, down_ms: int) -> None:
        """The server dies: what is not durable is lost, and no request is answered. It is back after `down_ms`."""
        kept = next((before for durable_ms, before in self._syncs if durable_ms > self.ms), len(self.records))
        self.note("crash", None, f"{len(self.records) - kept} records lost")
        del self.records[kept:]
        for call in self.parked.values():
            self.later(1, self._give_up, call)
        self._end_term(down_ms, self.ms)

    def resign(self, down_ms: int) -> None:
        """The server gives the groups up in order, and takes them over again after `down_ms`."""
        assert self.core is not None
        self.note("resign", None, None)
        self.watch.begins(None, self.ms)
        self._settle(self.core.resign(ErrorCode.NOT_COORDINATOR))
        self.watch.resigned(self.parked.values())
        self._end_term(down_ms, NEVER)

    def _end_term(self, down_ms: int, released_ms: int) -> None:
        self.core = None
        self._alarm_ms = NEVER
        self.parked.clear()
        self._syncs.clear()
        self._durable_ms = self.ms
        self._term_ends.append(released_ms)
        self.later(down_ms, self._load)

    def _load(self, _: None) -> None:
        self.events += 1
        self.note("loaded", None, None)
        self.core = core = self.replayed()
        self.watch.reloaded(self.records, self.ms, self._term_ends[-1])
        self.watch.begins(None, self.ms)
        self._settle(core.loaded(self.now()))
        self._arm()

    def replayed(self) -> GroupCore:
        """Another core, made of the records so far. It does not know yet that these were all records."""
        core = self.new_core()
        core.replay(((record.key, record.value) for record in self.records), self.now())
        return core
