"""The world around one node: its scenario, its processes, one after the other on one disk, and all clients."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from muster.coordinator.log import LogOffline, MemoryStorage, checkpoints
from muster.coordinator.log.checkpoints import UNKNOWN, read_last_stops
from muster.coordinator.log.recovery.inspection import Inspection
from muster.protocol.message import Message
from muster.simulation.actor import Actor
from muster.simulation.network import Network
from muster.simulation.process import Process
from muster.virtual import world
from muster.virtual.faulty_storage import FaultyStorage
from tests.simulation.faults import Chaos
from tests.simulation.run import brief
from tests.simulation.scenario import NO_ANSWER_FOR_MS, PARTITIONS, TOPIC
from tests.torture.clients import Committer
from tests.torture.ledger import Ledger
from tests.torture.node.actors import Administrator, Producer, Rogue
from tests.torture.node.judge import Inspector, Judge
from tests.torture.node.ledgers import Records, Topics
from tests.torture.node.scenario import NEVER, draw, draw_transactional
from tests.torture.node.share_states import Keeper, ShareStates, StateJudge
from tests.torture.node.transactions import CHECK_MS, TransactionJudge, Transactions
from tests.torture.node.transactions import PARTITIONS as TRANSACTION_PARTITIONS
from tests.torture.node.transactions import TOPIC as TRANSACTION_TOPIC

PROCESS_MS: Final = 20_000
"""A process that no fault ends lives for about this time."""
CALM_MS: Final = 300_000
"""Within this time after the last fault everything must settle."""
JUMP_MS: Final = 3_600_000
PAUSE_MS: Final = 30_000
TRACE: Final = 3_000
KEEPERS: Final = 2
"""The brokers that keep states of share groups, in histories with such brokers."""
UNSAID: Final = -1
"""UNKNOWN_SERVER_ERROR: the server met an unexpected error."""


class Broken(AssertionError):
    """A rule was broken."""


class World(world.World):
    """The world of this module. Odd seeds have clients with transactions, and half of the others have brokers that
    keep states of share groups. `brokers`: those of the process.
    """

    brokers = 1

    def __init__(self, seed: int, intercept: Intercept = NO_INTERCEPT) -> None:
        super().__init__(Random(seed))
        self.seed = seed
        self.intercept = intercept
        self.scenario = draw_transactional(self.rng) if seed % 2 else draw(self.rng)
        self.process: Process | None = None
        self.processes = 0
        self.judges = 0
        self.network = Network(self, lambda: self.process, self, patience_ms=NO_ANSWER_FOR_MS)
        self.chaos = Chaos(self, self.scenario)
        self.offsets = Ledger()
        self.records = Records()
        self.topics = Topics()
        self.transactions = Transactions(self, self.scenario.transactional_ids)
        self.share_states = ShareStates()
        self._keepers = KEEPERS if seed % 4 == 2 and self.brokers == 1 else 0
        self.answers = 0
        self.excused: set[str] = set()
        """Folders with a failed sync: after a power cut they may need an operator."""
        self.trace: deque[str] = deque(maxlen=TRACE)
        self._disk = MemoryStorage()
        self._was_cut = False
        self._loops: list[asyncio.AbstractEventLoop] = []
        self._rogue = Rogue(self) if self.scenario.rogues else None
        self._ended = False
        self._cause: BaseException | None = None
        self.judging = True

    def run(self, done: Callable[[], bool], for_ms: int) -> bool:
        """Run as any world; raises Broken at the first fault."""
        is_done = super().run(lambda: bool(self.offsets.faults) or done(), for_ms)
        self._raise_faults()
        return is_done

    def _raise_faults(self) -> None:
        if self.offsets.faults:
            raise Broken("; ".join(self.offsets.faults)) from self._cause

    # ---- the history

    def play(self) -> None:
        """Play the whole history. Raises Broken."""
        scenario = self.scenario
        for number in range(scenario.processes):
            self._begin_process(faults=True)
            if number == 0:
                self._begin_clients()
            self._end_by(PROCESS_MS * (0.2 + self.random()))
        self.calm = True
        self.chaos.calm()
        self.transactions.calm()
        if scenario.clock_jumps:  # transactions that began in a future that was revoked time out after it
            self.wall_at_zero_ms = world.WALL_MS + JUMP_MS
        self._begin_process(faults=False)
        inspector = Inspector(self)
        if not self.run(lambda: not self.judging, CALM_MS):
            self.fault("a server without any trouble did not come up, or could not be judged")
        inspector.start()
        if not self.run(lambda: not inspector.problem, CALM_MS):
            self.fault(f"the groups did not come to rest: {inspector.problem}")
        if scenario.transactional_ids:
            judge = TransactionJudge(self.transactions, is_last=True)
            judge.start()
            if not self.run(lambda: judge.done, CALM_MS):
                self.fault(f"the transactions did not come to rest: {judge.problem}")
        if self._keepers:
            last = StateJudge(self)
            last.start()
            if not self.run(lambda: last.done, CALM_MS):
                self.fault("the states of share groups could not be judged")
        self._stop_in_good_order()
        self._raise_faults()
        self._look_at_the_disk()

    def close(self) -> None:
        """End the history."""
        for loop in self._loops:
            loop.close()

    def _begin_clients(self) -> None:
        scenario = self.scenario
        self.chaos.begin()
        committers = [
            Committer(self, self.offsets, f"alone-{n}", TOPIC, is_member=False, pause_ms=self._pause_ms)
            for n in range(scenario.committers)
        ]
        producers = [Producer(self, n) for n in range(scenario.producers)]
        keepers = [Keeper(self, n) for n in range(self._keepers)]
        for one in (*committers, *producers, *keepers, Administrator(self, "admin")):
            one.start()
        self.transactions.begin()
        self._tick(None)

    def _pause_ms(self) -> int:
        return 1 + int(self.random() * 300)

    def _tick(self, _: None) -> None:
        """Cause a fault, and plan the next one."""
        if self.calm:
            return
        scenario = self.scenario
        if self.random() < scenario.cuts:
            self.network.lose_one()
        if self._rogue is not None:
            self._rogue.tick()
        if self.process is not None and self.random() < scenario.pauses:
            pause_ms = int(self.random() ** 3 * PAUSE_MS)
            self.note(f"the process stands still for {pause_ms} ms")
            self.process.suspend(pause_ms)
        if scenario.clock_jumps and self.random() < 0.1:
            skew_ms = int((self.random() - 0.5) * 2 * JUMP_MS)
            self.wall_at_zero_ms = world.WALL_MS + skew_ms
            self.note(f"the wall clock is set by {skew_ms} ms")
        self.later(1 + int(self.random() * 2 * scenario.tick_ms), self._tick)

    # ---- processes

    def _begin_process(self, *, faults: bool) -> None:
        scenario = self.scenario
        self.processes += 1
        self._ended = False
        self.judging = True
        dies_at = int(60 + self.random() ** 2 * 4_000) if faults and self.random() < 0.7 else NEVER
        failing = [1 + int(self.random() * 1_500) for _ in range(scenario.failing_disk)] if faults else []
        storage = FaultyStorage(self.rng.randrange(1 << 30), dies_at, fails_at=failing, on=self._disk)
        self.note(f"process {self.processes}: dies at change {dies_at}, of which fail {failing}")
        self.process = Process(
            self, self, storage, self._properties(), topics=self._topics(), slow_disk=scenario.slow_disk,
            syncs_all=scenario.syncs_all, intercept=self.intercept,
        )  # fmt: skip
        self._loops.append(self.process.loop)
        self.process.begin()

    def _topics(self) -> list[str]:
        more = [f"{TRANSACTION_TOPIC}:{TRANSACTION_PARTITIONS}"] if self.scenario.transactional_ids else []
        return [f"{TOPIC}:{PARTITIONS}", *more]

    def _properties(self) -> dict[str, str]:
        scenario = self.scenario
        return {
            "offsets.topic.num.partitions": "3",
            "log.roll.ms": str(scenario.roll_ms),
            "log.cleaner.backoff.ms": "2000",
            "log.cleaner.min.cleanable.ratio": "0.01",
            "log.retention.ms": "-1",
            "muster.offsets.durability": scenario.durability,
            "group.initial.rebalance.delay.ms": str(scenario.initial_delay_ms),
            "group.min.session.timeout.ms": "1000",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.num.partitions": "2",
            "share.coordinator.snapshot.update.records.per.snapshot": "5",
            "share.coordinator.state.topic.prune.interval.ms": "1500",
            "share.coordinator.cold.partition.snapshot.interval.ms": "2500",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(CHECK_MS),
            "transaction.remove.expired.transaction.cleanup.interval.ms": "3000",
            "transactional.id.expiration.ms": str(scenario.id_expiration_ms),
        }

    def _end_by(self, after_ms: float) -> None:
        """Wait for the end of the process; cause it after `after_ms`."""
        if not self.run(lambda: self._ended, int(after_ms)):
            process = self.process
            assert process is not None
            if self.random() < 0.3 and process.up:
                self.note("stop")
                process.stop()
                self.run(lambda: self._ended, 60_000)
            if not self._ended:
                self.note("kill")
                process.kill()
        assert self._ended

    def _stop_in_good_order(self) -> None:
        process = self.process
        assert process is not None
        process.stop()
        if not self.run(lambda: self._ended, 60_000):
            self.fault("the server did not stop")

    def started(self) -> None:
        """Note that the process listens."""
        self.note("started")
        Judge(self, was_cut=self._was_cut).start()
        if self.scenario.transactional_ids:
            TransactionJudge(self.transactions, is_last=False).start()
        if self._keepers:
            StateJudge(self).start()

    def start_failed(self, error: BaseException) -> None:
        """Note that the process ended before it listened."""
        self.note(f"the start failed: {error!r}")
        process = self.process
        failing = process is None or bool(process.storage.fails_at)
        if not isinstance(error, OSError | LogOffline) or not failing:
            self.fault(f"the server cannot start: {error!r}", error)
        self.ended(was_clean=False)

    def judged(self) -> None:
        """Note that the judge of this process is done."""
        self.judges += 1
        self.judging = False
        self._was_cut = False

    def ended(self, *, was_clean: bool) -> None:
        """The process has ended; the next process finds the disk as it is now."""
        process = self.process
        if process is None or self._ended:
            return
        self._ended = True
        cut = self.scenario.power_cuts and not was_clean
        how = "well" if was_clean else "by the power" if cut else "at once"
        self.note(f"ended {how} after {process.storage.steps} changes")
        if cut:
            self._was_cut = True
            self.transactions.was_cut()
        if was_clean:
            self.records.synced()
        self._disk = process.storage.left_behind(power_cut=cut)
        self.excused |= process.storage.distrusted

    # ---- what happens to clients

    def send(self, actor: Actor, request: Message) -> None:
        """An actor sends a request."""
        self.note(f"-> {actor.name} {brief(request)}")
        self.network.send(actor, request)

    def answered(self, actor: Actor, request: Message, response: Any) -> None:
        """The actor was answered."""
        self.answers += 1
        self.note(f"<- {actor.name} {brief(response)}")
        # Kafka gives this answer, too, to a client that mixes ids of members and of instances
        excused = self.scenario.failing_disk or actor.name == "prober"
        if not excused and _holds_unsaid(response):
            self.fault(f"{brief(request)} was answered {brief(response)}: UNKNOWN_SERVER_ERROR")

    def unanswered(self, request: Message) -> None:
        """A request was not answered for so long that it never will be, unless the process stood still."""
        if not self.scenario.pauses:
            self.fault(f"{brief(request)} was never answered")

    # ---- trace and faults

    def note(self, text: str, *_: Any) -> None:
        """Add a line to the trace."""
        about = " ".join(str(one) for one in _ if one is not None)
        self.trace.append(f"{self.ms:>8} ms {text} {about}")

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        """Report a violation: it ends the history, where the history is played."""
        self.note(f"FAULT {what}")
        self.offsets.faults.append(what)
        self._cause = self._cause or cause

    def _look_at_the_disk(self) -> None:
        """After a stop in order everything must be sound."""
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
