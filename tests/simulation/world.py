"""The world around one core: virtual time, a network that loses things, a log that is durable a little later.

Everything that happens comes from one queue and one seeded random source, so that a seed is a history. The world plays
the shell: it hands requests to the core, keeps its records, lets answers go when the log is durable, and can crash. It
judges nothing: `watch` sees what goes in and out.

An event, where they are counted, is a request that reaches the core, an answer or a timer that reaches a client, a
deadline of the core that does something, or a fault; what comes too late for anybody is none.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from random import Random
from typing import Any, Final

from muster.coordinator.core.deadlines import NEVER
from muster.coordinator.core.interface import Client, Command, JoinCommand, Now, Output, Record
from muster.coordinator.group_coordinator.error_responses import refuse
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.join_group import JoinGroupRequest
from tests.simulation.scenario import Scenario
from tests.simulation.watch import Watch

PARTITIONS: Final = 6
TOPICS: Final = TopicsImage({"t": TopicImage("t", b"T" * 16, PARTITIONS)}, 1)
WALL_MS: Final = 1_700_000_000_000
REQUEST_TIMEOUT_MS: Final = 30_000
"""How long a client waits for an answer before it connects anew."""
TRACE: Final = 4_000
"""How many of the last requests and replies are remembered."""

Script = Generator[Any, Any, None]
"""What a client does: it yields a request and is sent the response (None: lost), or yields ms to sleep."""


class Call:
    """One request on its way, and the token the core knows it by."""

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


class Actor:
    """One client process: a script, the connection it speaks over, and how slow it is.

    `turn` counts what has happened to the script: an answer or a timer meant for an earlier turn is too late.
    """

    two_step = skip = True

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.client = Client(name, "/10.0.0.1")
        self.latency_ms = 2
        self.turn = 0
        self.paused_until_ms = 0
        self.script: Script | None = None

    def live(self) -> Script:
        """What it does."""
        raise NotImplementedError

    def start(self, script: Script | None = None) -> None:
        """Begin, or begin anew."""
        self.script = self.live() if script is None else script
        self.resume(None)

    def kill(self) -> None:
        """The process is gone; whatever was meant for it comes too late."""
        self.script = None
        self.turn += 1

    def resume(self, value: object) -> None:
        """Go on with an answer, or after a sleep."""
        script = self.script
        if script is None:
            return
        self.turn += 1
        self.world.events += 1
        try:
            what = script.send(value)
        except StopIteration:
            self.kill()
            return
        if type(what) is int:
            self.world.later(what, self._wake, self.turn)
        else:
            self.world.send(self, what)

    def _wake(self, turn: int) -> None:
        if turn == self.turn:
            if self.paused_until_ms > self.world.ms:
                self.world.later(self.paused_until_ms - self.world.ms, self._wake, turn)
            else:
                self.resume(None)


class World:
    """See the module. `calm`: faults have stopped, and clients behave."""

    def __init__(self, scenario: Scenario, rng: Random, watch: Watch) -> None:
        self.scenario = scenario
        self.random: Callable[[], float] = rng.random
        self.watch = watch
        self.settings: GroupSettings = scenario.settings
        self.calm = False
        self.events = 0
        self.ms = 10_000
        self.now = Now(self.ms, WALL_MS)
        self.actors: list[Actor] = []
        self.calls = 0
        self.records: list[Record] = []
        self.trace: deque[tuple[int, int, str, Any, Any]] = deque(maxlen=TRACE)
        self.parked: dict[int, Call] = {}
        self.core: GroupCore | None = GroupCore(self.settings, TOPICS)
        self.core.loaded(self.now)
        self._queue: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._order = 0
        self._term_ends: list[int] = []
        """For each core that is no more, until when its answers went out."""
        self._durable_ms = 0
        self._syncs: list[tuple[int, int]] = []
        """When each batch that was not durable yet will be, and how many records were before it."""

    # ---- time

    def later(self, ms: int, act: Callable[[Any], None], what: Any) -> None:
        """Let `act(what)` happen in so many ms."""
        self._order += 1
        heapq.heappush(self._queue, (self.ms + ms, self._order, act, what))

    def run(self, events: int, until_ms: int) -> None:
        """Let things happen until so many events have, or the time is `until_ms`."""
        queue, pop, late_ms = self._queue, heapq.heappop, self.scenario.late_ms
        while self.events < events:
            due_ms = None if self.core is None else self.core.next_deadline_ms()
            if due_ms is not None and (not queue or due_ms + late_ms <= queue[0][0]):
                if due_ms + late_ms > until_ms:
                    break
                self._move_to(due_ms + late_ms)
                self._ring()
                continue
            if not queue or queue[0][0] > until_ms:
                break
            at_ms, _, act, what = pop(queue)
            self._move_to(at_ms)
            act(what)
        else:
            return
        self._move_to(until_ms)

    def _move_to(self, ms: int) -> None:
        if ms > self.ms:
            self.ms = ms
            self.now = Now(ms, WALL_MS + ms)

    def _ring(self) -> None:
        assert self.core is not None
        output = self.core.advance(self.now)
        if output.replies or output.records or output.events:
            self.events += 1
            if output.replies:
                self.note("time", None, None)
            self.watch.begins(None, self.ms)
            self._settle(output)

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
        """What the core answers at once to an administrator: for checkers that look at groups as clients do."""
        assert self.core is not None
        call = Call(Actor(self, "checker"), request, 0, self.ms)
        return self.core.handle(Command(request, call, call.actor.client), self.now).replies[0][1]

    def _arrive(self, call: Call) -> None:
        request, core = call.request, self.core
        self.events += 1
        if core is None:
            call.reply = refuse(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self.later(1, self._deliver, call)
            return
        self.trace.append((self.events, self.ms, "->", call, None))
        actor = call.actor
        call.term = len(self._term_ends)
        self.watch.begins(call, self.ms)
        if type(request) is JoinGroupRequest:
            command: Command = JoinCommand(request, call, actor.client, str(call.number), actor.two_step, actor.skip)
        else:
            command = Command(request, call, actor.client)
        self._settle(core.handle(command, self.now))
        if call.reply is None:
            call.parked = True
            self.parked[call.number] = call
            self.watch.parked(call)
            timeout_ms = REQUEST_TIMEOUT_MS
            if type(request) is JoinGroupRequest:
                timeout_ms = max(timeout_ms, request.rebalance_timeout_ms + 5_000)
            self.later(timeout_ms, self._give_up, call)

    def _settle(self, output: Output) -> None:
        """What a shell does with an output: keep the records, answer when they are durable."""
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
        call: Any  # stands for what takes the response
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
        actor = call.actor
        if call.turn != actor.turn:
            return
        if actor.paused_until_ms > self.ms:
            self.later(actor.paused_until_ms - self.ms, self._deliver, call)
        elif call.term < len(self._term_ends) and call.release_ms > self._term_ends[call.term]:
            actor.resume(None)  # it was decided, but not durable when the server crashed
        else:
            actor.resume(call.reply)

    def _give_up(self, call: Call) -> None:
        if call.turn == call.actor.turn:
            if call.actor.paused_until_ms > self.ms:
                self.later(call.actor.paused_until_ms - self.ms, self._give_up, call)
            else:
                call.actor.resume(None)

    def note(self, what: str, call: Call | None, detail: object) -> None:
        """Something that is neither a request nor a reply, for the trace."""
        self.trace.append((self.events, self.ms, what, call, detail))

    # ---- the end of a core, and the next one

    def crash(self, down_ms: int) -> None:
        """The server dies: what is not durable is lost, nobody is answered. It is back after `down_ms`."""
        kept = next((before for durable_ms, before in self._syncs if durable_ms > self.ms), len(self.records))
        self.note("crash", None, f"{len(self.records) - kept} records lost")
        del self.records[kept:]
        for call in self.parked.values():
            self.later(1, self._give_up, call)
        self._end_term(down_ms, self.ms)

    def resign(self, down_ms: int) -> None:
        """The server gives the groups up in good order, and takes them over again after `down_ms`."""
        assert self.core is not None
        self.note("resign", None, None)
        self.watch.begins(None, self.ms)
        self._settle(self.core.resign(ErrorCode.NOT_COORDINATOR))
        self.watch.resigned(self.parked.values())
        self._end_term(down_ms, NEVER)

    def _end_term(self, down_ms: int, released_ms: int) -> None:
        self.core = None
        self.parked.clear()
        self._syncs.clear()
        self._durable_ms = self.ms
        self._term_ends.append(released_ms)
        self.later(down_ms, self._load, None)

    def _load(self, _: None) -> None:
        self.events += 1
        self.note("loaded", None, None)
        self.core = core = self.replayed()
        self.watch.reloaded(self.records, self.ms, self._term_ends[-1])
        self.watch.begins(None, self.ms)
        self._settle(core.loaded(self.now))

    def replayed(self) -> GroupCore:
        """Another core, made of the records so far, that has not been told yet that these were all."""
        core = GroupCore(self.settings, TOPICS)
        core.replay(((record.key, record.value) for record in self.records), self.now)
        return core
