"""The world around one node: time, chance, processes that follow each other on one disk, and everybody who uses them.

Everything comes from one queue and one seeded random source, so that a seed is a history.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from muster.coordinator.api.intercept import NO_INTERCEPT, Intercept
from muster.coordinator.log import LogOffline, MemoryStorage, checkpoints
from muster.coordinator.log.checking.inspection import Inspection
from muster.coordinator.log.directory.last_stop import UNKNOWN, read_last_stops
from muster.protocol.message import Message
from muster.simulation.faulty_storage import FaultyStorage
from tests.simulation.faults import Chaos
from tests.simulation.run import brief
from tests.simulation.world import Actor
from tests.torture.ledger import Ledger
from tests.torture.node.actors import Administrator, Committer, Producer, Rogue
from tests.torture.node.callers import Asked, Caller
from tests.torture.node.judge import Inspector, Judge
from tests.torture.node.ledgers import Records, Topics
from tests.torture.node.life import Life
from tests.torture.node.weather import NEVER, draw

WALL_MS: Final = 1_700_000_000_000
LIFE_MS: Final = 20_000
"""A process that nothing ends gets about so old."""
CALM_MS: Final = 300_000
"""So long after the last fault everything must be at rest."""
JUMP_MS: Final = 3_600_000
PAUSE_MS: Final = 30_000
TRACE: Final = 3_000
UNSAID: Final = -1
"""UNKNOWN_SERVER_ERROR: the server met what nobody had thought of."""


class Broken(AssertionError):
    """What must not be."""


class World:
    """See the module. `calm`: faults have stopped, and clients behave."""

    def __init__(self, seed: int, intercept: Intercept = NO_INTERCEPT) -> None:
        self.seed = seed
        self.intercept = intercept
        self.rng = Random(seed)
        self.random: Callable[[], float] = self.rng.random
        self.weather = self.scenario = draw(self.rng)
        self.ms = 10_000
        self.skew_ms = 0
        self.calm = False
        self.events = 0
        self.life: Life | None = None
        self.lives = 0
        self.judges = 0
        self.chaos = Chaos(self)  # type: ignore[arg-type]  # it asks no more of a world than this one has
        self.offsets = Ledger()
        self.records = Records()
        self.topics = Topics()
        self.answers = 0
        self.excused: set[str] = set()
        """Folders of which a sync failed: they may need an operator after a power cut."""
        self.trace: deque[str] = deque(maxlen=TRACE)
        self._disk = MemoryStorage()
        self._was_cut = False
        self._callers: dict[Actor, Caller] = {}
        self._queue: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._order = 0
        self._loops: list[asyncio.AbstractEventLoop] = []
        self._rogue = Rogue(self) if self.weather.rogues else None
        self._ended = False
        self._cause: BaseException | None = None
        self.judging = True

    @property
    def wall_ms(self) -> int:
        """The wall clock."""
        return WALL_MS + self.ms + self.skew_ms

    # ---- time

    def later(self, ms: int, act: Callable[[Any], None], what: Any) -> None:
        """Let `act(what)` happen in so many ms."""
        self._order += 1
        heapq.heappush(self._queue, (self.ms + ms, self._order, act, what))

    def run(self, done: Callable[[], bool], for_ms: int) -> bool:
        """Let things happen until `done`, for so long at most; whether it is done."""
        end_ms, queue = self.ms + for_ms, self._queue
        while not done():
            if not queue or queue[0][0] > end_ms:
                self.ms = end_ms
                return done()
            self.ms, _, act, what = heapq.heappop(queue)
            self.events += 1
            act(what)
            self._raise_faults()
        return True

    def _raise_faults(self) -> None:
        if self.offsets.faults:
            raise Broken("; ".join(self.offsets.faults)) from self._cause

    # ---- the history

    def play(self) -> None:
        """All of it. Raises Broken."""
        weather = self.weather
        for number in range(weather.lives):
            self._begin_life(faults=True)
            if number == 0:
                self._begin_clients()
            self._end_by(LIFE_MS * (0.2 + self.random()))
        self.calm = True
        self.chaos.calm()
        self._begin_life(faults=False)
        inspector = Inspector(self)  # type: ignore[arg-type]
        if not self.run(lambda: not self.judging, CALM_MS):
            self.fault("a server without any trouble did not come up, or could not be judged")
        inspector.start()
        if not self.run(lambda: not inspector.problem, CALM_MS):
            self.fault(f"the groups did not come to rest: {inspector.problem}")
        self._stop_in_good_order()
        self._raise_faults()
        self._look_at_the_disk()

    def close(self) -> None:
        """The history is over."""
        for loop in self._loops:
            loop.close()

    def _begin_clients(self) -> None:
        weather = self.weather
        self.chaos.begin()
        committers = [Committer(self, n) for n in range(weather.committers)]  # type: ignore[arg-type]
        producers = [Producer(self, n) for n in range(weather.producers)]  # type: ignore[arg-type]
        for one in (*committers, *producers, Administrator(self, "admin")):  # type: ignore[arg-type]
            one.start()
        self._tick(None)

    def _tick(self, _: None) -> None:
        """Some trouble, and the next one later."""
        if self.calm:
            return
        weather = self.weather
        if self.random() < weather.cuts and self._callers:
            list(self._callers.values())[int(self.random() * len(self._callers))].lose()
        if self._rogue is not None:
            self._rogue.tick()
        if self.life is not None and self.random() < weather.pauses:
            pause_ms = int(self.random() ** 3 * PAUSE_MS)
            self.note(f"the process stands still for {pause_ms} ms")
            self.life.stand_still(pause_ms)
        if weather.clock_jumps and self.random() < 0.1:
            self.skew_ms = int((self.random() - 0.5) * 2 * JUMP_MS)
            self.note(f"the wall clock is set by {self.skew_ms} ms")
        self.later(1 + int(self.random() * 2 * weather.tick_ms), self._tick, None)

    # ---- processes

    def _begin_life(self, *, faults: bool) -> None:
        weather = self.weather
        self.lives += 1
        self._ended = False
        self.judging = True
        dies_at = int(60 + self.random() ** 2 * 4_000) if faults and self.random() < 0.7 else NEVER
        failing = [1 + int(self.random() * 1_500) for _ in range(weather.failing_disk)] if faults else []
        storage = FaultyStorage(self.rng.randrange(1 << 30), dies_at, fails_at=failing, on=self._disk)
        self.note(f"process {self.lives}: dies at change {dies_at}, of which fail {failing}")
        self.life = Life(self, storage, self._properties())
        self._loops.append(self.life.loop)
        self.life.begin()

    def _properties(self) -> dict[str, str]:
        weather = self.weather
        return {
            "offsets.topic.num.partitions": "3",
            "log.roll.ms": str(weather.roll_ms),
            "log.cleaner.backoff.ms": "2000",
            "log.cleaner.min.cleanable.ratio": "0.01",
            "log.retention.ms": "-1",
            "muster.offsets.durability": weather.durability,
            "group.initial.rebalance.delay.ms": str(weather.initial_delay_ms),
            "group.min.session.timeout.ms": "1000",
        }

    def _end_by(self, after_ms: float) -> None:
        """Wait for the process's end; after so long, bring it about."""
        if not self.run(lambda: self._ended, int(after_ms)):
            life = self.life
            assert life is not None
            if self.random() < 0.3 and life.up:
                self.note("stop")
                life.stop()
                self.run(lambda: self._ended, 60_000)
            if not self._ended:
                self.note("kill")
                life.kill()
        assert self._ended

    def _stop_in_good_order(self) -> None:
        life = self.life
        assert life is not None
        life.stop()
        if not self.run(lambda: self._ended, 60_000):
            self.fault("the server did not stop")

    def started(self) -> None:
        """The process listens."""
        self.note("started")
        Judge(self, was_cut=self._was_cut).start()  # type: ignore[arg-type]

    def start_failed(self, error: BaseException) -> None:
        """The process ended before it listened."""
        self.note(f"the start failed: {error!r}")
        life = self.life
        failing = life is None or bool(life.storage.fails_at)
        if not isinstance(error, OSError | LogOffline) or not failing:
            self.fault(f"the server cannot start: {error!r}", error)
        self.ended(was_clean=False)

    def judged(self) -> None:
        """The judge of this process is done."""
        self.judges += 1
        self.judging = False
        self._was_cut = False

    def ended(self, *, was_clean: bool) -> None:
        """The process is gone; what the disk holds now is what the next one finds."""
        life = self.life
        if life is None or self._ended:
            return
        self._ended = True
        cut = self.weather.power_cuts and not was_clean
        self.note(
            f"ended {'well' if was_clean else 'by the power' if cut else 'at once'} after {life.storage.steps} changes"
        )
        if cut:
            self._was_cut = True
        if was_clean:
            self.records.synced()
        self._disk = life.storage.left_behind(power_cut=cut)
        self.excused |= life.storage.distrusted

    # ---- what happens to clients

    def send(self, actor: Actor, request: Message) -> None:
        """An actor asks something."""
        caller = self._callers.get(actor)
        if caller is None:
            caller = self._callers[actor] = Caller(self, actor)
        self.note(f"-> {actor.name} {brief(request)}")
        caller.ask(request)

    def answered(self, actor: Actor, request: Message, response: Any) -> None:
        """It was told."""
        self.answers += 1
        self.note(f"<- {actor.name} {brief(response)}")
        # Kafka's answer, too, to a stranger that mixes up ids of members and of instances
        excused = self.weather.failing_disk or actor.name == "prober"
        if not excused and _holds_unsaid(response):
            self.fault(f"{brief(request)} was answered {brief(response)}: UNKNOWN_SERVER_ERROR")

    def unanswered(self, asked: Asked) -> None:
        """Nobody answered for so long that nobody will."""
        self.fault(f"{brief(asked.request)} was never answered")

    # ---- saying

    def note(self, text: str, *_: Any) -> None:
        """For the trace."""
        about = " ".join(str(one) for one in _ if one is not None)
        self.trace.append(f"{self.ms:>8} ms {text} {about}")

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        """What must not be: it ends the history, at the top, where that is played."""
        self.note(f"FAULT {what}")
        self.offsets.faults.append(what)
        self._cause = self._cause or cause

    def _look_at_the_disk(self) -> None:
        """After a stop in good order everything is sound."""
        if checkpoints.CLEAN_SHUTDOWN not in self._disk.files and not self.excused:
            self.fault("a stop in good order was none")
        stops = read_last_stops(self._disk)
        for name in sorted(self._disk.directories):
            partition = checkpoints.partition_of(name)
            if partition is not None:
                inspection = Inspection(self._disk, name, last_stop=stops.get(partition, UNKNOWN))
                inspection.run()
                if inspection.is_damaged and name not in self.excused:
                    self.fault(f"{name} is damaged: {inspection.findings}")
        self._raise_faults()


def _holds_unsaid(message: Any) -> bool:
    if isinstance(message, list | tuple):
        return any(map(_holds_unsaid, message))
    if not isinstance(message, Message):
        return False
    return any(
        value == UNSAID if field == "error_code" else _holds_unsaid(value)
        for field, value in ((field, getattr(message, field)) for field in message.__slots__)
    )
