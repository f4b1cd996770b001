"""Histories of the transaction core: faults, then a calm time, then all is judged."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

from muster.coordinator.state_machine.interface import Record
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.messages.describe_transactions import DescribeTransactionsRequest
from muster.protocol.messages.list_transactions import ListTransactionsRequest
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue
from muster.simulation.producer import TransactionalProducer
from tests.simulation.playing import Histories
from tests.simulation.transactions.ledger import Reading
from tests.simulation.transactions.scenario import (
    PARTITIONS,
    SETTLED_WITHIN_MS,
    TIMEOUTS_MS,
    TOPIC,
    draw,
)
from tests.simulation.transactions.watch import EMPTY
from tests.simulation.transactions.world import LAST_EPOCHS, World

SHOWN: Final = 60
MIXED: Final = True
OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class History:
    """The clients of one world, and their faults."""

    def __init__(self, seed: int, events: int) -> None:
        self.events = events
        rng = Random(seed)
        self.scenario = draw(rng)
        self.world = World(self.scenario, rng)
        self.producers: list[TransactionalProducer] = []
        self._named = 0

    def play(self) -> None:
        """Play the whole history. Raises the error of a broken rule."""
        scenario, world = self.scenario, self.world
        if scenario.last_epochs:
            self._use_up_epochs()
        for number in range(scenario.producers):
            self._spawn(number % scenario.ids)
        self._again()
        while world.events < self.events:
            world.run(lambda: world.events >= self.events, 20_000)
            self.check_replay()
        self._settle()
        self.judge()
        self.check_replay()

    def _use_up_epochs(self) -> None:
        world = self.world
        for number in range(self.scenario.ids):
            value = TransactionLogValue(500 + number, 500 + number, -1, LAST_EPOCHS + number * 4, -1, 10_000, EMPTY,
                                        None, world.wall_ms, -1, 0)  # fmt: skip
            world.records.append(Record(TransactionLogKey(f"id-{number}"), value, 1))
        world.crash()

    def _spawn(self, number: int) -> None:
        world, random = self.world, self.world.random
        self._named += 1
        version = 1 + int(random() * 2) if MIXED else 1 + (number + self.scenario.ids) % 2
        one = TransactionalProducer(
            world, f"p{self._named}", f"id-{number}", world.ledger, version=version,
            timeout_ms=TIMEOUTS_MS[int(random() * len(TIMEOUTS_MS))], topic=TOPIC, partitions=PARTITIONS,
            group_id=f"g{number}",
        )  # fmt: skip
        self.producers.append(one)
        one.start()

    def _again(self) -> None:
        self.world.later(1 + int(self.world.random() * 2 * self.scenario.tick_ms), self._tick)

    def _tick(self, _: None) -> None:
        world, random, scenario = self.world, self.world.random, self.scenario
        if world.calm:
            return
        self.producers = [one for one in self.producers if one.script is not None]
        what = random()
        if what < scenario.crashes:
            world.crash()
        elif what < scenario.crashes + scenario.takeovers or not self.producers:
            self._spawn(int(random() * scenario.ids))
            if len(self.producers) > scenario.producers + 2:
                self._kill(self.producers[0])
        else:
            one = self.producers[int(random() * len(self.producers))]
            if random() < 0.3 and len(self.producers) > 1:
                self._kill(one)
            else:
                world.note(f"{one.name} stands still")
                one.paused_until_ms = world.ms + int(random() ** 2 * 30_000)
        self._again()

    def _kill(self, one: TransactionalProducer) -> None:
        self.world.note(f"{one.name} is killed")
        one.kill()
        self.producers.remove(one)

    # ---- at rest

    def _settle(self) -> None:
        """No client is left: open transactions time out, and ending ones end."""
        world = self.world
        world.calm = True
        for one in self.producers:
            one.kill()
        world.crash()  # markers that were lost are written after the next load
        world.run(lambda: world.core is not None and not world.watch.open(), SETTLED_WITHIN_MS)
        if world.core is None or world.watch.open():
            world.fault(f"these never ended: {world.watch.open()}")
        listed = world.ask(ListTransactionsRequest(list(OPEN_STATES)))
        if listed.transaction_states:
            world.fault(f"these are listed as open: {[one.transactional_id for one in listed.transaction_states]}")
        world.run(lambda: False, 60_000)

    def judge(self) -> None:
        """Check that the partitions have what producers were promised."""
        world = self.world
        readings: dict[int, Reading] = {
            number: world.ledger.read(number, world.partitions[TOPIC, number].entries) for number in range(PARTITIONS)
        }
        offsets: dict[str, int] = {}
        pending: dict[int, dict[str, int]] = {}
        for entry in world.partitions[GROUP_OFFSETS_TOPIC, 0].entries:
            if entry.values is not None:
                group_id, number = entry.values[0].decode().split()
                pending.setdefault(entry.producer_id, {})[group_id] = int(number)
            else:
                ended = pending.pop(entry.producer_id, {})
                offsets.update(ended if entry.is_commit else {})
        world.ledger.settled(readings, offsets)

    def check_replay(self) -> None:
        """A core made of the log must answer as the core that wrote it."""
        world = self.world
        if world.core is None:
            return
        live = _shown(world)
        world.core, kept = world.replayed(), world.core
        replayed = _shown(world)
        world.core = kept
        if live != replayed:
            world.fault(f"replay differs: {[pair for pair in zip(live, replayed, strict=False) if pair[0] != pair[1]]}")

    def now(self) -> str:
        """The present time of the history."""
        return f"event {self.world.events}, {self.world.ms} ms"

    def described(self, error: Exception | None = None, last: int = SHOWN) -> list[str]:  # of all ids
        """The last events."""
        return self.world.described(last)

    def counted(self) -> Counter[str]:
        """How many transactions there were, and how many histories had each fault."""
        ledger = self.world.ledger
        return Counter(
            events=self.world.events, transactions=len(ledger.transactions), acknowledged=ledger.acknowledged,
            **dict.fromkeys(self.world.happened, 1),
        )  # fmt: skip


def _shown(world: World) -> list[Any]:
    """What an administrator sees of all ids."""
    listed = world.ask(ListTransactionsRequest())
    names = sorted(one.transactional_id for one in listed.transaction_states)
    if names != sorted(world.watch.values):
        world.fault(f"{names} are listed; the log has {sorted(world.watch.values)}")
    described = world.ask(DescribeTransactionsRequest(names)).transaction_states
    return [
        (one.transactional_id, one.transaction_state, one.producer_id, one.producer_epoch, one.transaction_timeout_ms,
         one.transaction_start_time_ms, sorted((row.topic, tuple(sorted(row.partitions))) for row in one.topics))
        for one in described
    ]  # fmt: skip


TRANSACTIONS = Histories(History, "--transactions ")
"""Histories of transactional ids."""
